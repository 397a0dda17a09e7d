package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	"headgate/interop/frame"
)

// send sends synchronously, asynchronously, one way, and a batch.
func send() {
	p := started()
	defer p.Shutdown()
	ctx := context.Background()
	wanted := []string{}
	for i := 0; i < 20; i++ {
		body := fmt.Sprint("sync", i)
		wanted = append(wanted, body)
		if result := got(p.SendSync(ctx, message("TagA", "k", body))); result.Status != primitive.SendOK {
			panic(result)
		}
	}
	var answered sync.WaitGroup
	failed := &bag{}
	for i := 0; i < 20; i++ {
		body := fmt.Sprint("async", i)
		wanted = append(wanted, body)
		answered.Add(1)
		must(p.SendAsync(ctx, func(_ context.Context, _ *primitive.SendResult, err error) {
			if err != nil {
				failed.add(err.Error())
			}
			answered.Done()
		}, message("TagA", "k", body)))
	}
	answered.Wait()
	if len(failed.all()) > 0 {
		panic(fmt.Errorf("async sends: %v", failed.all()))
	}
	for i := 0; i < 20; i++ {
		body := fmt.Sprint("oneway", i)
		wanted = append(wanted, body)
		must(p.SendOneWay(ctx, message("TagA", "k", body)))
	}
	batch := []*primitive.Message{}
	for i := 0; i < 20; i++ {
		body := fmt.Sprint("batch", i)
		wanted = append(wanted, body)
		batch = append(batch, message("TagA", "k", body))
	}
	if result := got(p.SendSync(ctx, batch...)); result.Status != primitive.SendOK {
		panic(result)
	}
	large := strings.Repeat("large ", 20000)
	wanted = append(wanted, large)
	got(p.SendSync(ctx, message("TagA", "k", large)))
	seen := &bag{}
	c := joined("cg_"+topic, topic, "*", seen.take)
	defer c.Shutdown()
	seen.await("all consumed", len(wanted))
	must(same(seen.all(), wanted))
}

func push() {
	p := begun()
	defer p.Shutdown()
	seen := []*bag{{}, {}}
	for i := range seen {
		mine := seen[i]
		c := joined("cg_"+topic, topic, "TagA || TagB", mine.take)
		defer c.Shutdown()
	}
	wanted := []string{}
	next := 0
	send := func(count int) {
		for end := next + count; next < end; next++ {
			tag := []string{"TagA", "TagB", "TagC"}[next%3]
			if tag != "TagC" {
				wanted = append(wanted, fmt.Sprint("m", next))
			}
			got(p.SendSync(context.Background(), message(tag, "k", fmt.Sprint("m", next))))
		}
	}
	// Members find each other by the notice of a change, or by the next balance after 20 s.
	must(frame.Within("both members get messages", patience, func() bool {
		send(24)
		time.Sleep(500 * time.Millisecond)
		return len(seen[0].all()) > 0 && len(seen[1].all()) > 0
	}))
	total := func() []string { return append(seen[0].all(), seen[1].all()...) }
	must(frame.Within("all consumed", patience, func() bool { return len(total()) >= len(wanted) }))
	distinct := map[string]bool{}
	for _, body := range total() {
		distinct[body] = true
	}
	bodies := []string{}
	for body := range distinct {
		bodies = append(bodies, body)
	}
	must(same(bodies, wanted))
}

func retry() {
	p := begun()
	defer p.Shutdown()
	seen := &bag{}
	c := joined("cg_"+topic, topic, "*", func(_ context.Context, each *primitive.MessageExt) consumer.ConsumeResult {
		seen.add(fmt.Sprint(string(each.Body), each.ReconsumeTimes))
		if each.ReconsumeTimes == 0 {
			return consumer.ConsumeRetryLater
		}
		return consumer.ConsumeSuccess
	})
	defer c.Shutdown()
	got(p.SendSync(context.Background(), message("TagA", "k", "again")))
	seen.await("a second delivery", 2)
	must(same(seen.all(), []string{"again0", "again1"}))
}

func orderly() {
	p := begun(producer.WithQueueSelector(producer.NewHashQueueSelector()))
	defer p.Shutdown()
	for i := 0; i < 60; i++ {
		each := message("TagA", "k", fmt.Sprint(i))
		each.WithShardingKey(fmt.Sprint("lane", i%3))
		got(p.SendSync(context.Background(), each))
	}
	seen := map[string]*bag{"lane0": {}, "lane1": {}, "lane2": {}}
	c := joined("cg_"+topic, topic, "*", func(_ context.Context, each *primitive.MessageExt) consumer.ConsumeResult {
		seen[each.GetShardingKey()].add(string(each.Body))
		return consumer.ConsumeSuccess
	}, consumer.WithConsumerOrder(true))
	defer c.Shutdown()
	for lane := 0; lane < 3; lane++ {
		mine := seen[fmt.Sprint("lane", lane)]
		mine.await("a lane consumed", 20)
		for at, body := range mine.all() {
			if body != fmt.Sprint(at*3+lane) {
				panic(fmt.Errorf("lane %d out of order: %v", lane, mine.all()))
			}
		}
	}
}

func administer() {
	create()
	tool := got(admin.NewAdmin(admin.WithResolver(resolver())))
	defer tool.Close()
	ctx := context.Background()
	list := got(tool.FetchAllTopicList(ctx))
	if !strings.Contains(" "+strings.Join(list.TopicList, " ")+" ", " "+topic+" ") {
		panic(fmt.Errorf("the topic is not listed: %v", list.TopicList))
	}
	if queues := got(tool.FetchPublishMessageQueues(ctx, topic)); len(queues) != 8 {
		panic(fmt.Errorf("queues: %v", queues))
	}
	must(tool.DeleteTopic(ctx, admin.WithTopicDelete(topic), admin.WithBrokerAddrDelete(os.Args[4]), admin.WithNameSrvAddr([]string{nameserver})))
}

// broadcast: two members, and each gets everything.
func broadcast() {
	p := begun()
	defer p.Shutdown()
	seen := []*bag{{}, {}}
	for _, mine := range seen {
		mine := mine
		c := joined("cg_"+topic, topic, "*", mine.take, consumer.WithConsumerModel(consumer.BroadCasting))
		defer c.Shutdown()
	}
	wanted := []string{}
	for number := 0; number < 20; number++ {
		wanted = append(wanted, fmt.Sprint("m", number))
		got(p.SendSync(context.Background(), message("TagA", "k", fmt.Sprint("m", number))))
	}
	for _, mine := range seen {
		mine.await("everything", len(wanted))
		must(same(mine.all(), append([]string{}, wanted...)))
	}
}
