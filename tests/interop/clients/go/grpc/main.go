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
	scenarios := map[string]func(){"simple": simple, "push": push, "fifo": fifo, "delay": delay, "transact": transact, "crash": crash, "sql": sql, "dead": dead, "spaces": spaces, "slow": slow, "ordered": ordered, "guarded": guarded}
	defer func() {
		if err := recover(); err != nil {
			fmt.Println("FAILED", os.Args[1], err)
			os.Exit(1)
		}
	}()
	scenarios[os.Args[1]]()
	fmt.Println("OK", os.Args[1])
}

// must ends the scenario with an error, if there is one.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func got[T any](value T, err error) T {
	must(err)
	return value
}

func configuration() *client.Config { return of(group) }

func of(group string) *client.Config {
	return &client.Config{Endpoint: endpoint, ConsumerGroup: group, Credentials: &credentials.SessionCredentials{}}
}

func producing(config *client.Config, name string, more ...client.ProducerOption) client.Producer {
	producer := got(client.NewProducer(config, append([]client.ProducerOption{client.WithTopics(name)}, more...)...))
	must(producer.Start())
	return producer
}

// produce sends count messages; change may set what else a message needs.
func produce(count int, change func(number int, message *client.Message)) {
	producer := producing(configuration(), topic)
	defer producer.GracefulStop()
	for number := 0; number < count; number++ {
		message := &client.Message{Topic: topic, Body: []byte(fmt.Sprint("body ", number))}
		message.SetTag([]string{"even", "odd"}[number%2])
		message.SetKeys(fmt.Sprint("key-", number))
		message.AddProperty("place", "Zürich")
		if change != nil {
			change(number, message)
		}
		receipts := got(producer.Send(context.Background(), message))
		if len(receipts) != 1 || receipts[0].MessageID == "" {
			panic(fmt.Errorf("receipts %v", receipts))
		}
	}
}

func receiving(expression *client.FilterExpression) client.SimpleConsumer {
	return receivingOf(configuration(), topic, expression)
}

func receivingOf(config *client.Config, name string, expression *client.FilterExpression) client.SimpleConsumer {
	consumer := got(client.NewSimpleConsumer(
		config, client.WithSimpleAwaitDuration(await),
		client.WithSimpleSubscriptionExpressions(map[string]*client.FilterExpression{name: expression}),
	))
	must(consumer.Start())
	return consumer
}

// whole ends the scenario unless the message is as it was sent.
func whole(message *client.MessageView) {
	number := strings.TrimPrefix(string(message.GetBody()), "body ")
	if keys := message.GetKeys(); len(keys) != 1 || keys[0] != "key-"+number {
		panic(fmt.Errorf("keys %v of body %s", keys, number))
	}
	if message.GetTag() == nil || message.GetProperties()["place"] != "Zürich" || message.GetTopic() != topic {
		panic(fmt.Errorf("tag, topic or properties of body %s are not as they were sent", number))
	}
}

// drain receives until enough messages have come; handle answers whether the message is acknowledged.
func drain(consumer client.SimpleConsumer, enough int, handle func(*client.MessageView) bool) {
	end := time.Now().Add(patience)
	for seen := 0; seen < enough; {
		if time.Now().After(end) {
			panic(fmt.Errorf("%d of %d messages within %v", seen, enough, patience))
		}
		messages, err := consumer.Receive(context.Background(), 16, invisible)
		if err != nil {
			if status, known := client.AsErrRpcStatus(err); known && status.GetCode() == 40404 {
				continue
			}
			panic(err)
		}
		for _, message := range messages {
			seen++
			if handle(message) {
				must(consumer.Ack(context.Background(), message))
			}
		}
	}
}

// simple receives by tag, gives one message back for a second, and acknowledges the rest.
func simple() {
	produce(20, nil)
	consumer := receiving(client.NewFilterExpression("even"))
	attempts := map[string][]int32{}
	givenBack := ""
	drain(consumer, 11, func(message *client.MessageView) bool {
		body := string(message.GetBody())
		attempts[body] = append(attempts[body], message.GetDeliveryAttempt())
		if givenBack == "" {
			givenBack = body
			must(consumer.ChangeInvisibleDuration(message, time.Second))
			return false
		}
		whole(message)
		return true
	})
	wanted := map[string][]int32{}
	for number := 0; number < 20; number += 2 {
		wanted[fmt.Sprint("body ", number)] = []int32{1}
	}
	wanted[givenBack] = []int32{1, 2}
	if fmt.Sprint(attempts) != fmt.Sprint(wanted) {
		panic(fmt.Errorf("seen %v, wanted %v", attempts, wanted))
	}
	must(consumer.GracefulStop())
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

// take is what a listener does that writes messages down.
func (b *bag) take(message *client.MessageView) client.ConsumerResult {
	b.add(message)
	return client.SUCCESS
}

func (b *bag) bodies() []string {
	found := []string{}
	for _, message := range b.all() {
		found = append(found, string(message.GetBody()))
	}
	return found
}

// pushed starts a push consumer. It ends with the process: its GracefulStop waits for a long poll of 20 s.
func pushed(listener func(*client.MessageView) client.ConsumerResult) {
	pushedOf(configuration(), topic, listener)
}

func pushedOf(config *client.Config, name string, listener func(*client.MessageView) client.ConsumerResult) {
	consumer := got(client.NewPushConsumer(
		config, client.WithPushAwaitDuration(await), client.WithPushConsumptionThreadCount(4),
		client.WithPushSubscriptionExpressions(map[string]*client.FilterExpression{name: client.SUB_ALL}),
		client.WithPushMessageListener(&client.FuncMessageListener{Consume: listener}),
	))
	must(consumer.Start())
}

func until(what string, holds func() bool) { must(frame.Within(what, patience, holds)) }

// push fails one message once and gets it again; every other comes once.
func push() {
	produce(30, nil)
	var seen bag
	var failed sync.Once
	pushed(func(message *client.MessageView) client.ConsumerResult {
		seen.add(message)
		result := client.SUCCESS
		if string(message.GetBody()) == "body 3" {
			failed.Do(func() { result = client.FAILURE })
		}
		return result
	})
	until("31 messages", func() bool { return len(seen.all()) >= 31 })
	time.Sleep(time.Second)
	got, wanted := []string{}, []string{"body 3 2"}
	for _, message := range seen.all() {
		whole(message)
		got = append(got, fmt.Sprint(string(message.GetBody()), " ", message.GetDeliveryAttempt()))
	}
	for number := 0; number < 30; number++ {
		wanted = append(wanted, fmt.Sprintf("body %d 1", number))
	}
	sort.Strings(got)
	sort.Strings(wanted)
	if strings.Join(got, ",") != strings.Join(wanted, ",") {
		panic(fmt.Errorf("seen %v", got))
	}
}

// fifo sends three message groups and sees each in its order.
func fifo() {
	produce(30, func(number int, message *client.Message) { message.SetMessageGroup(fmt.Sprint("group-", number%3)) })
	var seen bag
	pushed(seen.take)
	until("30 messages", func() bool { return len(seen.all()) >= 30 })
	byGroup := map[string][]string{}
	for _, message := range seen.all() {
		messageGroup := message.GetMessageGroup()
		if messageGroup == nil {
			panic(fmt.Errorf("no message group on %s", message.GetBody()))
		}
		byGroup[*messageGroup] = append(byGroup[*messageGroup], strings.TrimPrefix(string(message.GetBody()), "body "))
	}
	for messageGroup := 0; messageGroup < 3; messageGroup++ {
		wanted := []string{}
		for number := messageGroup; number < 30; number += 3 {
			wanted = append(wanted, fmt.Sprint(number))
		}
		if got := byGroup[fmt.Sprint("group-", messageGroup)]; strings.Join(got, " ") != strings.Join(wanted, " ") {
			panic(fmt.Errorf("group-%d: %v", messageGroup, got))
		}
	}
}

// delay gets a message for later when its time has come, not before.
func delay() {
	due := time.Now().Add(3 * time.Second)
	produce(3, func(_ int, message *client.Message) { message.SetDelayTimestamp(due) })
	consumer := receiving(client.SUB_ALL)
	drain(consumer, 3, func(message *client.MessageView) bool {
		if now := time.Now(); now.Before(due.Truncate(time.Millisecond)) {
			panic(fmt.Errorf("%v too early", due.Sub(now)))
		}
		whole(message)
		return true
	})
	must(consumer.GracefulStop())
}
