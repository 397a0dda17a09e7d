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
)

// sql receives by an expression over properties.
func sql() error {
	err := produce(12, func(number int, message *client.Message) { message.AddProperty("weight", fmt.Sprint(number)) })
	if err != nil {
		return err
	}
	consumer, err := receiving(client.NewFilterExpressionWithType("weight BETWEEN 5 AND 8 AND place = 'Zürich'", client.SQL92))
	if err != nil {
		return err
	}
	seen := []string{}
	err = drain(consumer, 4, func(message *client.MessageView) (bool, error) {
		seen = append(seen, string(message.GetBody()))
		return true, whole(message)
	})
	if err != nil {
		return err
	}
	sort.Strings(seen)
	if strings.Join(seen, ",") != "body 5,body 6,body 7,body 8" {
		return fmt.Errorf("seen %v", seen)
	}
	return consumer.GracefulStop()
}

// dead fails a message until the group's attempts are over, and finds it in the dead-letter topic.
func dead() error {
	if err := produce(1, nil); err != nil {
		return err
	}
	var lock sync.Mutex
	attempts := []int32{}
	err := pushed(func(message *client.MessageView) client.ConsumerResult {
		lock.Lock()
		defer lock.Unlock()
		attempts = append(attempts, message.GetDeliveryAttempt())
		return client.FAILURE
	})
	if err != nil {
		return err
	}
	err = until(func() bool {
		lock.Lock()
		defer lock.Unlock()
		return len(attempts) >= 2
	})
	if err != nil {
		return fmt.Errorf("%w: attempts %v", err, attempts)
	}
	time.Sleep(2 * time.Second)
	undertaker := &client.Config{Endpoint: endpoint, ConsumerGroup: group + "-undertaker", Credentials: &credentials.SessionCredentials{}}
	consumer, err := client.NewSimpleConsumer(
		undertaker, client.WithSimpleAwaitDuration(await),
		client.WithSimpleSubscriptionExpressions(map[string]*client.FilterExpression{"%DLQ%" + group: client.SUB_ALL}),
	)
	if err != nil {
		return err
	}
	if err = consumer.Start(); err != nil {
		return err
	}
	err = drain(consumer, 1, func(message *client.MessageView) (bool, error) {
		if string(message.GetBody()) != "body 0" {
			return false, fmt.Errorf("a letter %s", message.GetBody())
		}
		return true, nil
	})
	lock.Lock()
	defer lock.Unlock()
	if err == nil && fmt.Sprint(attempts) != "[1 2]" {
		err = fmt.Errorf("attempts %v", attempts)
	}
	return err
}

// slow has two members, one message, and a listener that works on it for longer than a lease: it is handed out once.
func slow() error {
	var seen bag
	done := make(chan struct{})
	for member := 0; member < 2; member++ {
		err := pushed(func(message *client.MessageView) client.ConsumerResult {
			seen.add(message)
			time.Sleep(66 * time.Second)
			close(done)
			return client.SUCCESS
		})
		if err != nil {
			return err
		}
	}
	if err := produce(1, nil); err != nil {
		return err
	}
	select {
	case <-done:
	case <-time.After(110 * time.Second):
		return fmt.Errorf("not consumed, %d deliveries", len(seen.all()))
	}
	time.Sleep(4 * time.Second)
	if len(seen.all()) != 1 {
		return fmt.Errorf("%d deliveries", len(seen.all()))
	}
	return nil
}

// spaces has the same names in two namespaces and in none: what is sent in one is seen there alone.
func spaces() error {
	for _, space := range []string{"", "shop", "yard"} {
		config := func() *client.Config {
			return &client.Config{Endpoint: endpoint, NameSpace: space, ConsumerGroup: group, Credentials: &credentials.SessionCredentials{}}
		}
		producer, err := client.NewProducer(config(), client.WithTopics(topic))
		if err != nil {
			return err
		}
		if err = producer.Start(); err != nil {
			return err
		}
		for number := 0; number < 3; number++ {
			message := &client.Message{Topic: topic, Body: []byte(fmt.Sprint(space, " ", number))}
			if _, err = producer.Send(context.Background(), message); err != nil {
				return err
			}
		}
		consumer, err := client.NewSimpleConsumer(
			config(), client.WithSimpleAwaitDuration(await),
			client.WithSimpleSubscriptionExpressions(map[string]*client.FilterExpression{topic: client.SUB_ALL}),
		)
		if err != nil {
			return err
		}
		if err = consumer.Start(); err != nil {
			return err
		}
		seen := []string{}
		take := func(message *client.MessageView) (bool, error) {
			seen = append(seen, string(message.GetBody()))
			return true, nil
		}
		if err = drain(consumer, 3, take); err != nil {
			return fmt.Errorf("namespace %q: %w", space, err)
		}
		sort.Strings(seen)
		if wanted := fmt.Sprintf("[%s 0 %s 1 %s 2]", space, space, space); fmt.Sprint(seen) != wanted {
			return fmt.Errorf("namespace %q: seen %v", space, seen)
		}
	}
	return nil
}

// ordered runs members of an orderly group, which print `seen KEY NUMBER NANOSECONDS` for each message; with two more arguments it sends
// that many keys with that many messages each. It runs until it is killed.
func ordered() error {
	var print sync.Mutex
	listen := func(message *client.MessageView) client.ConsumerResult {
		print.Lock()
		fmt.Println("seen", *message.GetMessageGroup(), string(message.GetBody()), time.Now().UnixNano())
		print.Unlock()
		time.Sleep(20 * time.Millisecond)
		return client.SUCCESS
	}
	numbers := []int{0, 0, 0}
	for at, text := range os.Args[5:] {
		if _, err := fmt.Sscan(text, &numbers[at]); err != nil {
			return err
		}
	}
	for member := 0; member < numbers[0]; member++ {
		if err := pushed(listen); err != nil {
			return err
		}
	}
	keys, count := numbers[1], numbers[2]
	err := produce(keys*count, func(number int, message *client.Message) {
		message.SetMessageGroup(fmt.Sprint("key", number%keys))
		message.Body = []byte(fmt.Sprint(number / keys))
	})
	if err != nil {
		return err
	}
	select {}
}
