package main

import (
	"errors"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// three is paho.mqtt.golang, MQTT 3.1.1.
type three struct {
	client  mqtt.Client
	bag     bag
	lock    sync.Mutex
	socket  net.Conn
	resumed atomic.Bool
	unended map[uint16]string
}

func connectThree(addr string, s setup) (client, error) {
	t := &three{unended: map[uint16]string{}}
	o := mqtt.NewClientOptions().AddBroker("tcp://" + addr).SetClientID(s.id).SetProtocolVersion(4).SetCleanSession(!s.kept)
	o.SetAutoReconnect(s.kept).SetMaxReconnectInterval(200 * time.Millisecond).SetConnectTimeout(5 * time.Second)
	o.SetKeepAlive(10 * time.Second)
	if s.will != "" {
		o.SetWill(s.will, "gone", 1, false)
	}
	o.SetCustomOpenConnectionFn(func(uri *url.URL, _ mqtt.ClientOptions) (net.Conn, error) {
		conn, err := net.DialTimeout("tcp", uri.Host, 5*time.Second)
		t.lock.Lock()
		t.socket = conn
		t.lock.Unlock()
		return conn, err
	})
	// Messages of a kept session come before anybody has subscribed again.
	o.SetDefaultPublishHandler(t.take)
	t.client = mqtt.NewClient(o)
	token := t.client.Connect()
	if !token.WaitTimeout(patience) {
		return nil, errors.New("no CONNACK")
	}
	t.resumed.Store(token.(*mqtt.ConnectToken).SessionPresent())
	return t, token.Error()
}

// take leaves out what a receiver at QoS 2 has to know again by its packet identifier (3.1.1, 4.3.3): the library hands each
// PUBLISH on, those too that a server had to repeat since it was killed before it could keep the PUBREC.
func (t *three) take(_ mqtt.Client, m mqtt.Message) {
	if m.Qos() == 2 {
		if m.Duplicate() && t.unended[m.MessageID()] == string(m.Payload()) {
			return
		}
		t.unended[m.MessageID()] = string(m.Payload())
	}
	t.bag.add(message{m.Topic(), string(m.Payload()), m.Qos(), m.Retained()})
}

func (t *three) subscribe(filter string, qos byte) error {
	token := t.client.Subscribe(filter, qos, t.take)
	if !token.WaitTimeout(patience) {
		return errors.New("no SUBACK")
	}
	// The library files a shared filter without its group.
	for _, granted := range token.(*mqtt.SubscribeToken).Result() {
		if token.Error() == nil && granted != qos {
			return errors.New("another QoS was granted")
		}
	}
	return token.Error()
}

func (t *three) publish(topic, payload string, qos byte, retain bool) error {
	token := t.client.Publish(topic, qos, retain, payload)
	if !token.WaitTimeout(patience) {
		return errors.New("a publish was not confirmed")
	}
	return token.Error()
}

func (t *three) received() *bag { return &t.bag }
func (t *three) present() bool  { return t.resumed.Load() }
func (t *three) close()         { t.client.Disconnect(250) }

func (t *three) drop() {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.socket.Close()
}
