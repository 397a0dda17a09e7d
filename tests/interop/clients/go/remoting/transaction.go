package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	"headgate/interop/frame"
)

// decider leaves open what begins with "open"; asked about it, it commits what ends in an even digit.
type decider struct {
	lock  sync.Mutex
	asked map[string]int
}

func (d *decider) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	switch {
	case strings.HasPrefix(string(message.Body), "commit"):
		return primitive.CommitMessageState
	case strings.HasPrefix(string(message.Body), "rollback"):
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (d *decider) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.asked[string(message.Body)]++
	if (message.Body[len(message.Body)-1]-'0')%2 == 0 {
		return primitive.CommitMessageState
	}
	return primitive.RollbackMessageState
}

func transact() error {
	if err := created(); err != nil {
		return err
	}
	seen := &bag{}
	member, err := subscribed("*", false, func(message *primitive.MessageExt) consumer.ConsumeResult {
		seen.add(string(message.Body))
		return consumer.ConsumeSuccess
	})
	if err != nil {
		return err
	}
	defer member.Shutdown()
	judge := &decider{asked: map[string]int{}}
	made, err := rocketmq.NewTransactionProducer(
		judge, producer.WithNsResolver(resolver()), producer.WithGroupName("tg_"+topic), producer.WithRetry(0),
		producer.WithSendMsgTimeout(10*time.Second),
	)
	if err != nil {
		return err
	}
	if err := made.Start(); err != nil {
		return err
	}
	defer made.Shutdown()
	var wanted []string
	for number := 0; number < 8; number++ {
		for _, kind := range []string{"commit", "rollback", "open"} {
			body := fmt.Sprintf("%s%d", kind, number)
			result, err := made.SendMessageInTransaction(context.Background(), message("TagA", "key", body))
			if err != nil {
				return err
			}
			if result.Status != primitive.SendOK || result.TransactionID != result.MsgID {
				return fmt.Errorf("%s: %s", body, result.String())
			}
			if kind == "commit" || kind == "open" && number%2 == 0 {
				wanted = append(wanted, body)
			}
		}
	}
	if err := frame.Within("all that commits", 90*time.Second, func() bool { return len(seen.all()) >= len(wanted) }); err != nil {
		return fmt.Errorf("%w: seen %v, asked %v", err, seen.all(), judge.asked)
	}
	time.Sleep(2 * time.Second)
	judge.lock.Lock()
	defer judge.lock.Unlock()
	if len(judge.asked) != 8 {
		return fmt.Errorf("asked about %v", judge.asked)
	}
	return same(seen.all(), wanted)
}
