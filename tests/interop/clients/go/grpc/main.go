// One scenario a run: `grpc NAME ENDPOINT TOPIC GROUP`. Exits 0 when all that it expects came true.
//
// The SDK uses TLS unless the environment has rocketmq.client.enableSsl=false.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	client "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"

	"headgate/interop/frame"
)

const (
	await     = 5 * time.Second
	invisible = 30 * time.Second
	patience  = 60 * time.Second
)

var endpoint, topic, group string

func main() {
	endpoint, topic, group = os.Args[2], os.Args[3], os.Args[4]
	scenarios := map[string]func() error{"simple": simple, "push": push, "fifo": fifo, "delay": delay, "transact": transact, "crash": crash, "sql": sql, "dead": dead, "spaces": spaces, "slow": slow, "ordered": ordered, "guarded": guarded}
	if err := scenarios[os.Args[1]](); err != nil {
		fmt.Println("FAILED", os.Args[1], err)
		os.Exit(1)
	}
	fmt.Println("OK", os.Args[1])
}

func configuration() *client.Config {
	return &client.Config{Endpoint: endpoint, ConsumerGroup: group, Credentials: &credentials.SessionCredentials{}}
}

// produce sends count messages; change may set what else a message needs.
func produce(count int, change func(number int, message *client.Message)) error {
	producer, err := client.NewProducer(configuration(), client.WithTopics(topic))
	if err != nil {
		return err
	}
	if err = producer.Start(); err != nil {
		return err
	}
	defer producer.GracefulStop()
	for number := 0; number < count; number++ {
		message := &client.Message{Topic: topic, Body: []byte(fmt.Sprint("body ", number))}
		message.SetTag([]string{"even", "odd"}[number%2])
		message.SetKeys(fmt.Sprint("key-", number))
		message.AddProperty("place", "Zürich")
		if change != nil {
			change(number, message)
		}
		receipts, err := producer.Send(context.Background(), message)
		if err != nil {
			return err
		}
		if len(receipts) != 1 || receipts[0].MessageID == "" {
			return fmt.Errorf("receipts %v", receipts)
		}
	}
	return nil
}

func receiving(expression *client.FilterExpression) (client.SimpleConsumer, error) {
	consumer, err := client.NewSimpleConsumer(
		configuration(), client.WithSimpleAwaitDuration(await),
		client.WithSimpleSubscriptionExpressions(map[string]*client.FilterExpression{topic: expression}),
	)
	if err != nil {
		return nil, err
	}
	return consumer, consumer.Start()
}

func whole(message *client.MessageView) error {
	number := strings.TrimPrefix(string(message.GetBody()), "body ")
	if keys := message.GetKeys(); len(keys) != 1 || keys[0] != "key-"+number {
		return fmt.Errorf("keys %v of body %s", keys, number)
	}
	if message.GetTag() == nil || message.GetProperties()["place"] != "Zürich" || message.GetTopic() != topic {
		return fmt.Errorf("tag, topic or properties of body %s are not as they were sent", number)
	}
	return nil
}

// drain receives until enough messages have come; handle answers whether the message is acknowledged.
func drain(consumer client.SimpleConsumer, enough int, handle func(*client.MessageView) (bool, error)) error {
	end := time.Now().Add(patience)
	for seen := 0; seen < enough; {
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d messages within %v", seen, enough, patience)
		}
		messages, err := consumer.Receive(context.Background(), 16, invisible)
		if err != nil {
			if status, known := client.AsErrRpcStatus(err); known && status.GetCode() == 40404 {
				continue
			}
			return err
		}
		for _, message := range messages {
			seen++
			acknowledge, err := handle(message)
			if err != nil {
				return err
			}
			if acknowledge {
				if err = consumer.Ack(context.Background(), message); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// simple receives by tag, gives one message back for a second, and acknowledges the rest.
func simple() error {
	if err := produce(20, nil); err != nil {
		return err
	}
	consumer, err := receiving(client.NewFilterExpression("even"))
	if err != nil {
		return err
	}
	attempts := map[string][]int32{}
	givenBack := ""
	err = drain(consumer, 11, func(message *client.MessageView) (bool, error) {
		body := string(message.GetBody())
		attempts[body] = append(attempts[body], message.GetDeliveryAttempt())
		if givenBack == "" {
			givenBack = body
			return false, consumer.ChangeInvisibleDuration(message, time.Second)
		}
		return true, whole(message)
	})
	if err != nil {
		return err
	}
	wanted := map[string][]int32{}
	for number := 0; number < 20; number += 2 {
		wanted[fmt.Sprint("body ", number)] = []int32{1}
	}
	wanted[givenBack] = []int32{1, 2}
	if fmt.Sprint(attempts) != fmt.Sprint(wanted) {
		return fmt.Errorf("seen %v, wanted %v", attempts, wanted)
	}
	return consumer.GracefulStop()
}

type bag struct {
	sync.Mutex
	seen []*client.MessageView
}

func (b *bag) add(message *client.MessageView) {
	b.Lock()
	defer b.Unlock()
	b.seen = append(b.seen, message)
}

func (b *bag) all() []*client.MessageView {
	b.Lock()
	defer b.Unlock()
	return append([]*client.MessageView{}, b.seen...)
}

func (b *bag) bodies() []string {
	found := []string{}
	for _, message := range b.all() {
		found = append(found, string(message.GetBody()))
	}
	return found
}

// pushed starts a push consumer. It ends with the process: its GracefulStop waits for a long poll of 20 s.
func pushed(listener func(*client.MessageView) client.ConsumerResult) error {
	consumer, err := client.NewPushConsumer(
		configuration(), client.WithPushAwaitDuration(await), client.WithPushConsumptionThreadCount(4),
		client.WithPushSubscriptionExpressions(map[string]*client.FilterExpression{topic: client.SUB_ALL}),
		client.WithPushMessageListener(&client.FuncMessageListener{Consume: listener}),
	)
	if err != nil {
		return err
	}
	return consumer.Start()
}

func until(holds func() bool) error { return frame.Within("what was wanted", patience, holds) }

// push fails one message once and gets it again; every other comes once.
func push() error {
	if err := produce(30, nil); err != nil {
		return err
	}
	var seen bag
	var failed sync.Once
	err := pushed(func(message *client.MessageView) client.ConsumerResult {
		seen.add(message)
		result := client.SUCCESS
		if string(message.GetBody()) == "body 3" {
			failed.Do(func() { result = client.FAILURE })
		}
		return result
	})
	if err != nil {
		return err
	}
	if err = until(func() bool { return len(seen.all()) >= 31 }); err != nil {
		return fmt.Errorf("%d of 31 messages: %w", len(seen.all()), err)
	}
	time.Sleep(time.Second)
	got, wanted := []string{}, []string{"body 3 2"}
	for _, message := range seen.all() {
		if err = whole(message); err != nil {
			return err
		}
		got = append(got, fmt.Sprint(string(message.GetBody()), " ", message.GetDeliveryAttempt()))
	}
	for number := 0; number < 30; number++ {
		wanted = append(wanted, fmt.Sprintf("body %d 1", number))
	}
	sort.Strings(got)
	sort.Strings(wanted)
	if strings.Join(got, ",") != strings.Join(wanted, ",") {
		return fmt.Errorf("seen %v", got)
	}
	return nil
}

// fifo sends three message groups and sees each in its order.
func fifo() error {
	err := produce(30, func(number int, message *client.Message) { message.SetMessageGroup(fmt.Sprint("group-", number%3)) })
	if err != nil {
		return err
	}
	var seen bag
	err = pushed(func(message *client.MessageView) client.ConsumerResult {
		seen.add(message)
		return client.SUCCESS
	})
	if err != nil {
		return err
	}
	if err = until(func() bool { return len(seen.all()) >= 30 }); err != nil {
		return fmt.Errorf("%d of 30 messages: %w", len(seen.all()), err)
	}
	byGroup := map[string][]string{}
	for _, message := range seen.all() {
		messageGroup := message.GetMessageGroup()
		if messageGroup == nil {
			return fmt.Errorf("no message group on %s", message.GetBody())
		}
		byGroup[*messageGroup] = append(byGroup[*messageGroup], strings.TrimPrefix(string(message.GetBody()), "body "))
	}
	for messageGroup := 0; messageGroup < 3; messageGroup++ {
		wanted := []string{}
		for number := messageGroup; number < 30; number += 3 {
			wanted = append(wanted, fmt.Sprint(number))
		}
		if got := byGroup[fmt.Sprint("group-", messageGroup)]; strings.Join(got, " ") != strings.Join(wanted, " ") {
			return fmt.Errorf("group-%d: %v", messageGroup, got)
		}
	}
	return nil
}

// delay gets a message for later when its time has come, not before.
func delay() error {
	due := time.Now().Add(3 * time.Second)
	if err := produce(3, func(_ int, message *client.Message) { message.SetDelayTimestamp(due) }); err != nil {
		return err
	}
	consumer, err := receiving(client.SUB_ALL)
	if err != nil {
		return err
	}
	err = drain(consumer, 3, func(message *client.MessageView) (bool, error) {
		if now := time.Now(); now.Before(due.Truncate(time.Millisecond)) {
			return false, fmt.Errorf("%v too early", due.Sub(now))
		}
		return true, whole(message)
	})
	if err != nil {
		return err
	}
	return consumer.GracefulStop()
}
