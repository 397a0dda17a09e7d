package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	"headgate/interop/frame"
)

const retries = 1

// buried finds the refused message in the dead-letter topic.
func buried() {
	letters := &bag{}
	undertaker := joined("undertaker_"+topic, "%DLQ%cg_"+topic, "*", func(_ context.Context, each *primitive.MessageExt) consumer.ConsumeResult {
		letters.add(string(each.Body) + " of " + each.GetProperty("DLQ_ORIGIN_TOPIC"))
		return consumer.ConsumeSuccess
	})
	defer undertaker.Shutdown()
	letters.await("the dead letter", 1)
	must(same(letters.all(), []string{"poison of " + topic}))
}

// dead refuses a message until the member's limit, and finds it in the dead-letter topic.
func dead() {
	p := begun()
	defer p.Shutdown()
	attempts := &bag{}
	c := joined("cg_"+topic, topic, "*", func(ctx context.Context, each *primitive.MessageExt) consumer.ConsumeResult {
		attempts.add(fmt.Sprint(each.ReconsumeTimes))
		if chosen, known := primitive.GetConcurrentlyCtx(ctx); known {
			chosen.DelayLevelWhenNextConsume = 1
		}
		return consumer.ConsumeRetryLater
	}, consumer.WithMaxReconsumeTimes(retries))
	defer c.Shutdown()
	got(p.SendSync(context.Background(), message("TagA", "k", "poison")))
	attempts.await("the last attempt", retries+1)
	time.Sleep(2 * time.Second)
	buried()
	must(same(attempts.all(), []string{"0", "1"}))
}

// deadOrderly has a member in order that suspends its queue until its limit: then the followers come, and a dead letter is found.
func deadOrderly() {
	p := begun(producer.WithQueueSelector(producer.NewHashQueueSelector()))
	defer p.Shutdown()
	for _, body := range []string{"poison", "m0", "m1"} {
		each := message("TagA", "k", body)
		each.WithShardingKey("lane")
		got(p.SendSync(context.Background(), each))
	}
	var lock sync.Mutex
	seen := []string{}
	c := joined("cg_"+topic, topic, "*", func(ctx context.Context, each *primitive.MessageExt) consumer.ConsumeResult {
		lock.Lock()
		defer lock.Unlock()
		seen = append(seen, fmt.Sprint(string(each.Body), " ", each.ReconsumeTimes))
		if chosen, known := primitive.GetOrderlyCtx(ctx); known {
			chosen.SuspendCurrentQueueTimeMillis = 200
		}
		if string(each.Body) == "poison" {
			return consumer.SuspendCurrentQueueAMoment
		}
		return consumer.ConsumeSuccess
	}, consumer.WithConsumerOrder(true), consumer.WithMaxReconsumeTimes(retries))
	defer c.Shutdown()
	all := func() string {
		lock.Lock()
		defer lock.Unlock()
		return strings.Join(seen, ",")
	}
	must(frame.Within("the followers", patience, func() bool { return strings.Contains(all(), "m1 ") }))
	// It counts to one more than its limit in order.
	if all() != "poison 0,poison 1,poison 2,m0 0,m1 0" {
		panic(fmt.Errorf("seen %s", all()))
	}
	buried()
}
