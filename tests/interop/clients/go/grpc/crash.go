package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	client "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"

	"headgate/interop/frame"
)

// crash runs two scenes at a time, over a kill of the node.
func crash() error {
	return frame.Play(map[string]frame.Scene{
		"stream":       func(arrived func()) error { return stream(topic+"-stream", arrived) },
		"transactions": func(arrived func()) error { return undecided(topic+"-transactions", arrived) },
	})
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
func stream(name string, arrived func()) error {
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
	send := func(body string) error {
		limited, done := context.WithTimeout(context.Background(), 3*time.Second)
		defer done()
		_, err := producer.Send(limited, &client.Message{Topic: name, Body: []byte(body)})
		return err
	}
	return frame.Stream(arrived, 0, send, seen.bodies)
}

// undecided transactions are asked about after the kill, maybe of another producer of the topic; decided ones stay as they were decided.
func undecided(name string, arrived func()) error {
	check := func(message *client.MessageView) client.TransactionResolution {
		switch {
		case !frame.IsBack():
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
	frame.AwaitBack()
	// After a break this SDK tells its settings again within five minutes only; another producer is asked meanwhile.
	if _, err = begin(); err != nil {
		return err
	}
	var seen bag
	if err = into(name, &seen); err != nil {
		return err
	}
	err = frame.Within("the decided and the asked about", frame.Lateness, func() bool { return len(seen.all()) >= 3 })
	time.Sleep(2 * time.Second)
	bodies := seen.bodies()
	sort.Strings(bodies)
	if got := strings.Join(bodies, ","); got != "body 0,body 1,body 4" {
		return fmt.Errorf("seen %s, %w", got, err)
	}
	return nil
}
