package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	client "github.com/apache/rocketmq-clients/golang/v5"

	"headgate/interop/frame"
)

// transact commits two messages, rolls two back, and leaves two to be asked about, of which it commits one.
func transact() error {
	var lock sync.Mutex
	asked := map[string]bool{}
	check := func(message *client.MessageView) client.TransactionResolution {
		lock.Lock()
		defer lock.Unlock()
		asked[string(message.GetBody())] = true
		if string(message.GetBody()) == "body 4" {
			return client.COMMIT
		}
		return client.ROLLBACK
	}
	producer, err := client.NewProducer(
		configuration(), client.WithTopics(topic), client.WithTransactionChecker(&client.TransactionChecker{Check: check}),
	)
	if err != nil {
		return err
	}
	if err = producer.Start(); err != nil {
		return err
	}
	for number := 0; number < 6; number++ {
		message := &client.Message{Topic: topic, Body: []byte(fmt.Sprint("body ", number))}
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
	var seen bag
	err = pushed(func(message *client.MessageView) client.ConsumerResult {
		seen.add(message)
		return client.SUCCESS
	})
	if err != nil {
		return err
	}
	err = frame.Within("the decided and the asked about", 100*time.Second, func() bool {
		lock.Lock()
		defer lock.Unlock()
		return len(asked) >= 2 && len(seen.all()) >= 3
	})
	time.Sleep(time.Second)
	bodies := []string{}
	for _, message := range seen.all() {
		bodies = append(bodies, string(message.GetBody()))
	}
	sort.Strings(bodies)
	if got := strings.Join(bodies, ","); got != "body 0,body 1,body 4" || fmt.Sprint(asked) != "map[body 4:true body 5:true]" {
		return fmt.Errorf("seen %s, asked %v, %w", got, asked, err)
	}
	return nil
}
