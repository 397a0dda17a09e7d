package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
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

func transact() {
	create()
	seen := &bag{}
	member := joined("cg_"+topic, topic, "*", seen.take)
	defer member.Shutdown()
	judge := &decider{asked: map[string]int{}}
	made := got(rocketmq.NewTransactionProducer(
		judge, producer.WithNsResolver(resolver()), producer.WithGroupName("tg_"+topic), producer.WithRetry(0),
		producer.WithSendMsgTimeout(10*time.Second),
	))
	must(made.Start())
	defer made.Shutdown()
	var wanted []string
	for number := 0; number < 8; number++ {
		for _, kind := range []string{"commit", "rollback", "open"} {
			body := fmt.Sprintf("%s%d", kind, number)
			result := got(made.SendMessageInTransaction(context.Background(), message("TagA", "key", body)))
			if result.Status != primitive.SendOK || result.TransactionID != result.MsgID {
				panic(fmt.Errorf("%s: %s", body, result.String()))
			}
			if kind == "commit" || kind == "open" && number%2 == 0 {
				wanted = append(wanted, body)
			}
		}
	}
	seen.await("all that commits", len(wanted))
	time.Sleep(2 * time.Second)
	judge.lock.Lock()
	defer judge.lock.Unlock()
	if len(judge.asked) != 8 {
		panic(fmt.Errorf("asked about %v", judge.asked))
	}
	must(same(seen.all(), wanted))
}
