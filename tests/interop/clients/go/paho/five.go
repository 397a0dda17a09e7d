package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"
)

// five is paho.golang, MQTT 5.0, with its connection manager.
type five struct {
	manager *autopaho.ConnectionManager
	bag     bag
	lock    sync.Mutex
	socket  net.Conn
	resumed atomic.Bool
}

func connectFive(addr string, s setup) (client, error) {
	f := &five{}
	server, err := url.Parse("mqtt://" + addr)
	if err != nil {
		return nil, err
	}
	config := autopaho.ClientConfig{
		ServerUrls:                    []*url.URL{server},
		KeepAlive:                     10,
		CleanStartOnInitialConnection: !s.kept,
		ReconnectBackoff:              func(int) time.Duration { return 100 * time.Millisecond },
		ConnectTimeout:                5 * time.Second,
		AttemptConnection: func(ctx context.Context, _ autopaho.ClientConfig, u *url.URL) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
			f.lock.Lock()
			f.socket = conn
			f.lock.Unlock()
			return conn, err
		},
		OnConnectionUp:   func(_ *autopaho.ConnectionManager, ack *paho.Connack) { f.resumed.Store(ack.SessionPresent) },
		OnConnectionDown: func() bool { return s.kept },
		ClientConfig: paho.ClientConfig{
			ClientID: s.id,
			OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(r paho.PublishReceived) (bool, error) {
				f.bag.add(message{r.Packet.Topic, string(r.Packet.Payload), r.Packet.QoS, r.Packet.Retain})
				return true, nil
			}},
		},
	}
	if s.kept {
		config.SessionExpiryInterval = 3600
	}
	if s.will != "" {
		config.WillMessage = &paho.WillMessage{Topic: s.will, Payload: []byte("gone"), QoS: 1}
	}
	if f.manager, err = autopaho.NewConnection(context.Background(), config); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return f, f.manager.AwaitConnection(ctx)
}

func (f *five) subscribe(filter string, qos byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ack, err := f.manager.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: qos}}})
	if err == nil && (len(ack.Reasons) != 1 || ack.Reasons[0] != qos) {
		err = fmt.Errorf("SUBACK with %v", ack.Reasons)
	}
	return err
}

func (f *five) publish(topic, payload string, qos byte, retain bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := f.manager.Publish(ctx, &paho.Publish{Topic: topic, Payload: []byte(payload), QoS: qos, Retain: retain})
	return err
}

func (f *five) received() *bag { return &f.bag }
func (f *five) present() bool  { return f.resumed.Load() }

func (f *five) drop() {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.socket.Close()
}

func (f *five) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	f.manager.Disconnect(ctx)
}
