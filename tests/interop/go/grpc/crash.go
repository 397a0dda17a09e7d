package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const (
	before   = 200
	after    = 200
	lateness = 120 * time.Second
)

// isBack is true when the node has been killed and is there again.
var isBack atomic.Bool

// crash runs two scenes at a time, says READY when both can stand a kill of the node, and waits for a line.
func crash() error {
	var scenes, ready sync.WaitGroup
	back := make(chan struct{})
	var lock sync.Mutex
	var failed []string
	for name, scene := range map[string]func(string, func(), chan struct{}) error{"stream": stream, "transactions": undecided} {
		scenes.Add(1)
		ready.Add(1)
		go func() {
			defer scenes.Done()
			var once sync.Once
			arrived := func() { once.Do(ready.Done) }
			err := scene(topic+"-"+name, arrived, back)
			arrived()
			if err != nil {
				lock.Lock()
				defer lock.Unlock()
				failed = append(failed, fmt.Sprintf("FAILED %s\n%v", name, err))
				return
			}
			fmt.Println("OK", name)
		}()
	}
	ready.Wait()
	fmt.Println("READY")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	isBack.Store(true)
	close(back)
	scenes.Wait()
	if len(failed) > 0 {
		fmt.Println(strings.Join(failed, "\n"))
		return errors.New("of the scenes")
	}
	return nil
}

func of(name string) *client.Config {
	return &client.Config{Endpoint: endpoint, ConsumerGroup: name + "-group", Credentials: &credentials.SessionCredentials{}}
}

func into(name string, seen *bag) error {
	consumer, err := client.NewPushConsumer(
		of(name), client.WithPushAwaitDuration(await), client.WithPushConsumptionThreadCount(4),
		client.WithPushSubscriptionExpressions(map[string]*client.FilterExpression{name: client.SUB_ALL}),
		client.WithPushMessageListener(&client.FuncMessageListener{Consume: func(message *client.MessageView) client.ConsumerResult {
			seen.add(message)
			return client.SUCCESS
		}}),
	)
	if err != nil {
		return err
	}
	return consumer.Start()
}

// stream sends and consumes all the time: what was acknowledged is consumed.
func stream(name string, arrived func(), _ chan struct{}) error {
	producer, err := client.NewProducer(of(name), client.WithTopics(name))
	if err != nil {
		return err
	}
	if err = producer.Start(); err != nil {
		return err
	}
	var seen bag
	if err = into(name, &seen); err != nil {
		return err
	}
	acknowledged := map[string]bool{}
	refused, since := 0, 0
	for number := 0; since < after; number++ {
		back := isBack.Load()
		body := fmt.Sprint("m", number)
		limited, done := context.WithTimeout(context.Background(), 3*time.Second)
		_, err := producer.Send(limited, &client.Message{Topic: name, Body: []byte(body)})
		done()
		if err != nil {
			refused++
			if refused > 10_000 {
				return fmt.Errorf("the producer does not come back: %w", err)
			}
			time.Sleep(20 * time.Millisecond)
		} else {
			acknowledged[body] = true
			if back {
				since++
			}
		}
		if len(acknowledged) >= before {
			arrived()
		}
		if !back {
			time.Sleep(5 * time.Millisecond)
		}
	}
	missing := func() int {
		found := map[string]bool{}
		for _, message := range seen.all() {
			found[string(message.GetBody())] = true
		}
		count := 0
		for body := range acknowledged {
			if !found[body] {
				count++
			}
		}
		return count
	}
	if err = within(lateness, func() bool { return missing() == 0 }); err != nil {
		return fmt.Errorf("%w: %d of %d are missing", err, missing(), len(acknowledged))
	}
	fmt.Println("go:", len(acknowledged), "acknowledged,", refused, "sends failed,", len(seen.all()), "deliveries")
	return nil
}

// undecided transactions are asked about after the kill, maybe of another producer of the topic; decided ones stay as they were decided.
func undecided(name string, arrived func(), back chan struct{}) error {
	check := func(message *client.MessageView) client.TransactionResolution {
		switch {
		case !isBack.Load():
			return client.UNKNOWN
		case string(message.GetBody()) == "body 4":
			return client.COMMIT
		}
		return client.ROLLBACK
	}
	begin := func() (client.Producer, error) {
		producer, err := client.NewProducer(
			of(name), client.WithTopics(name), client.WithTransactionChecker(&client.TransactionChecker{Check: check}),
		)
		if err != nil {
			return nil, err
		}
		return producer, producer.Start()
	}
	producer, err := begin()
	if err != nil {
		return err
	}
	for number := 0; number < 6; number++ {
		message := &client.Message{Topic: name, Body: []byte(fmt.Sprint("body ", number))}
		transaction := producer.BeginTransaction()
		if _, err = producer.SendWithTransaction(context.Background(), message, transaction); err != nil {
			return err
		}
		switch number / 2 {
		case 0:
			err = transaction.Commit()
		case 1:
			err = transaction.RollBack()
		}
		if err != nil {
			return err
		}
	}
	arrived()
	<-back
	// After a break this SDK tells its settings again within five minutes only; another producer is asked meanwhile.
	if _, err = begin(); err != nil {
		return err
	}
	var seen bag
	if err = into(name, &seen); err != nil {
		return err
	}
	err = within(lateness, func() bool { return len(seen.all()) >= 3 })
	time.Sleep(2 * time.Second)
	bodies := []string{}
	for _, message := range seen.all() {
		bodies = append(bodies, string(message.GetBody()))
	}
	sort.Strings(bodies)
	if got := strings.Join(bodies, ","); got != "body 0,body 1,body 4" {
		return fmt.Errorf("seen %s, %w", got, err)
	}
	return nil
}
