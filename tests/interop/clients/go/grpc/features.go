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
)

// sql receives by an expression over properties.
func sql() {
	produce(12, func(number int, message *client.Message) { message.AddProperty("weight", fmt.Sprint(number)) })
	consumer := receiving(client.NewFilterExpressionWithType("weight BETWEEN 5 AND 8 AND place = 'Zürich'", client.SQL92))
	seen := []string{}
	drain(consumer, 4, func(message *client.MessageView) bool {
		seen = append(seen, string(message.GetBody()))
		whole(message)
		return true
	})
	sort.Strings(seen)
	if strings.Join(seen, ",") != "body 5,body 6,body 7,body 8" {
		panic(fmt.Errorf("seen %v", seen))
	}
	must(consumer.GracefulStop())
}

// dead fails a message until the group's attempts are over, and finds it in the dead-letter topic.
func dead() {
	produce(1, nil)
	var lock sync.Mutex
	attempts := []int32{}
	pushed(func(message *client.MessageView) client.ConsumerResult {
		lock.Lock()
		defer lock.Unlock()
		attempts = append(attempts, message.GetDeliveryAttempt())
		return client.FAILURE
	})
	until("two attempts", func() bool {
		lock.Lock()
		defer lock.Unlock()
		return len(attempts) >= 2
	})
	time.Sleep(2 * time.Second)
	consumer := receivingOf(of(group+"-undertaker"), "%DLQ%"+group, client.SUB_ALL)
	drain(consumer, 1, func(message *client.MessageView) bool {
		if string(message.GetBody()) != "body 0" {
			panic(fmt.Errorf("a letter %s", message.GetBody()))
		}
		return true
	})
	lock.Lock()
	defer lock.Unlock()
	if fmt.Sprint(attempts) != "[1 2]" {
		panic(fmt.Errorf("attempts %v", attempts))
	}
}

// slow has two members, one message, and a listener that works on it for longer than a lease: it is handed out once.
func slow() {
	var seen bag
	done := make(chan struct{})
	for member := 0; member < 2; member++ {
		pushed(func(message *client.MessageView) client.ConsumerResult {
			seen.add(message)
			time.Sleep(66 * time.Second)
			close(done)
			return client.SUCCESS
		})
	}
	produce(1, nil)
	select {
	case <-done:
	case <-time.After(110 * time.Second):
		panic(fmt.Errorf("not consumed, %d deliveries", len(seen.all())))
	}
	time.Sleep(4 * time.Second)
	if len(seen.all()) != 1 {
		panic(fmt.Errorf("%d deliveries", len(seen.all())))
	}
}

// spaces has the same names in two namespaces and in none: what is sent in one is seen there alone.
func spaces() {
	for _, space := range []string{"", "shop", "yard"} {
		config := of(group)
		config.NameSpace = space
		producer := producing(config, topic)
		for number := 0; number < 3; number++ {
			message := &client.Message{Topic: topic, Body: []byte(fmt.Sprint(space, " ", number))}
			got(producer.Send(context.Background(), message))
		}
		consumer := receivingOf(config, topic, client.SUB_ALL)
		seen := []string{}
		take := func(message *client.MessageView) bool {
			seen = append(seen, string(message.GetBody()))
			return true
		}
		drain(consumer, 3, take)
		sort.Strings(seen)
		if wanted := fmt.Sprintf("[%s 0 %s 1 %s 2]", space, space, space); fmt.Sprint(seen) != wanted {
			panic(fmt.Errorf("namespace %q: seen %v", space, seen))
		}
	}
}

// ordered runs members of an orderly group, which print `seen KEY NUMBER NANOSECONDS` for each message; with two more arguments it sends
// that many keys with that many messages each. It runs until it is killed.
func ordered() {
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
		got(fmt.Sscan(text, &numbers[at]))
	}
	for member := 0; member < numbers[0]; member++ {
		pushed(listen)
	}
	keys, count := numbers[1], numbers[2]
	produce(keys*count, func(number int, message *client.Message) {
		message.SetMessageGroup(fmt.Sprint("key", number%keys))
		message.Body = []byte(fmt.Sprint(number / keys))
	})
	select {}
}
