// One scenario a run: `remoting NAME NAMESERVER TOPIC`. Exits 0 when all that it expects came true.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"

	"headgate/interop/frame"
)

var nameserver, topic string

func main() {
	rlog.SetLogLevel("error")
	nameserver, topic = os.Args[2], os.Args[3]
	scenarios := map[string]func() error{"send": send, "push": push, "retry": retry, "orderly": orderly, "admin": administer, "transact": transact, "mixed": mixed, "request": request, "crash": crash, "dead": dead, "broadcast": broadcast, "later": later, "pull": pull, "sql": sql, "trace": trace, "spaces": spaces, "limit": limit, "by-hand": byHand, "reset": reset, "dead-orderly": deadOrderly, "guarded": guarded}
	if err := scenarios[os.Args[1]](); err != nil {
		fmt.Println("FAILED", os.Args[1], err)
		os.Exit(1)
	}
	fmt.Println("OK", os.Args[1])
}

func resolver() primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{nameserver})
}

func started() (rocketmq.Producer, error) {
	made, err := rocketmq.NewProducer(
		producer.WithNsResolver(resolver()), producer.WithGroupName("pg_"+topic), producer.WithRetry(0),
		producer.WithSendMsgTimeout(10*time.Second),
	)
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

func created() error {
	tool, err := admin.NewAdmin(admin.WithResolver(resolver()))
	if err != nil {
		return err
	}
	defer tool.Close()
	return tool.CreateTopic(context.Background(), admin.WithTopicCreate(topic), admin.WithBrokerAddrCreate(os.Args[4]))
}

func message(tag, key, body string) *primitive.Message {
	return primitive.NewMessage(topic, []byte(body)).WithTag(tag).WithKeys([]string{key})
}

type bag struct {
	sync.Mutex
	bodies []string
}

func (b *bag) add(body string) {
	b.Lock()
	defer b.Unlock()
	b.bodies = append(b.bodies, body)
}

func (b *bag) all() []string {
	b.Lock()
	defer b.Unlock()
	return append([]string{}, b.bodies...)
}

func same(got, wanted []string) error {
	sort.Strings(got)
	sort.Strings(wanted)
	if strings.Join(got, " ") != strings.Join(wanted, " ") {
		return fmt.Errorf("got %v, wanted %v", got, wanted)
	}
	return nil
}

func subscribed(expression string, orderly bool, handle func(*primitive.MessageExt) consumer.ConsumeResult) (rocketmq.PushConsumer, error) {
	made, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(resolver()), consumer.WithGroupName("cg_"+topic), consumer.WithConsumerOrder(orderly),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset), consumer.WithInstance(fmt.Sprint(time.Now().UnixNano())),
	)
	if err != nil {
		return nil, err
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: expression}
	err = made.Subscribe(topic, selector, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, each := range messages {
			if result := handle(each); result != consumer.ConsumeSuccess {
				return result, nil
			}
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

func send() error {
	p, err := started()
	if err != nil {
		return err
	}
	defer p.Shutdown()
	ctx := context.Background()
	wanted := []string{}
	for i := 0; i < 20; i++ {
		body := fmt.Sprint("sync", i)
		wanted = append(wanted, body)
		result, err := p.SendSync(ctx, message("TagA", "k", body))
		if err != nil || result.Status != primitive.SendOK {
			return fmt.Errorf("sync send: %v %v", result, err)
		}
	}
	var answered sync.WaitGroup
	failed := &bag{}
	for i := 0; i < 20; i++ {
		body := fmt.Sprint("async", i)
		wanted = append(wanted, body)
		answered.Add(1)
		err := p.SendAsync(ctx, func(_ context.Context, _ *primitive.SendResult, err error) {
			if err != nil {
				failed.add(err.Error())
			}
			answered.Done()
		}, message("TagA", "k", body))
		if err != nil {
			return err
		}
	}
	answered.Wait()
	if len(failed.all()) > 0 {
		return fmt.Errorf("async sends: %v", failed.all())
	}
	for i := 0; i < 20; i++ {
		body := fmt.Sprint("oneway", i)
		wanted = append(wanted, body)
		if err := p.SendOneWay(ctx, message("TagA", "k", body)); err != nil {
			return err
		}
	}
	batch := []*primitive.Message{}
	for i := 0; i < 20; i++ {
		body := fmt.Sprint("batch", i)
		wanted = append(wanted, body)
		batch = append(batch, message("TagA", "k", body))
	}
	if result, err := p.SendSync(ctx, batch...); err != nil || result.Status != primitive.SendOK {
		return fmt.Errorf("batch send: %v %v", result, err)
	}
	large := strings.Repeat("large ", 20000)
	wanted = append(wanted, large)
	if _, err := p.SendSync(ctx, message("TagA", "k", large)); err != nil {
		return err
	}
	seen := &bag{}
	c, err := subscribed("*", false, func(each *primitive.MessageExt) consumer.ConsumeResult {
		seen.add(string(each.Body))
		return consumer.ConsumeSuccess
	})
	if err != nil {
		return err
	}
	defer c.Shutdown()
	if err := frame.Within("all consumed", 40*time.Second, func() bool { return len(seen.all()) >= len(wanted) }); err != nil {
		return err
	}
	return same(seen.all(), wanted)
}

func push() error {
	if err := created(); err != nil {
		return err
	}
	p, err := started()
	if err != nil {
		return err
	}
	defer p.Shutdown()
	seen := []*bag{{}, {}}
	for i := range seen {
		mine := seen[i]
		c, err := subscribed("TagA || TagB", false, func(each *primitive.MessageExt) consumer.ConsumeResult {
			mine.add(string(each.Body))
			return consumer.ConsumeSuccess
		})
		if err != nil {
			return err
		}
		defer c.Shutdown()
	}
	wanted := []string{}
	next := 0
	send := func(count int) error {
		for end := next + count; next < end; next++ {
			tag := []string{"TagA", "TagB", "TagC"}[next%3]
			if tag != "TagC" {
				wanted = append(wanted, fmt.Sprint("m", next))
			}
			if _, err := p.SendSync(context.Background(), message(tag, "k", fmt.Sprint("m", next))); err != nil {
				return err
			}
		}
		return nil
	}
	// Members find each other by the notice of a change, or by the next balance after 20 s.
	err = frame.Within("both members get messages", 60*time.Second, func() bool {
		err = send(24)
		time.Sleep(500 * time.Millisecond)
		return err != nil || (len(seen[0].all()) > 0 && len(seen[1].all()) > 0)
	})
	if err != nil {
		return err
	}
	total := func() []string { return append(seen[0].all(), seen[1].all()...) }
	if err := frame.Within("all consumed", 40*time.Second, func() bool { return len(total()) >= len(wanted) }); err != nil {
		return err
	}
	distinct := map[string]bool{}
	for _, body := range total() {
		distinct[body] = true
	}
	got := []string{}
	for body := range distinct {
		got = append(got, body)
	}
	return same(got, wanted)
}

func retry() error {
	if err := created(); err != nil {
		return err
	}
	p, err := started()
	if err != nil {
		return err
	}
	defer p.Shutdown()
	seen := &bag{}
	c, err := subscribed("*", false, func(each *primitive.MessageExt) consumer.ConsumeResult {
		seen.add(fmt.Sprint(string(each.Body), each.ReconsumeTimes))
		if each.ReconsumeTimes == 0 {
			return consumer.ConsumeRetryLater
		}
		return consumer.ConsumeSuccess
	})
	if err != nil {
		return err
	}
	defer c.Shutdown()
	if _, err := p.SendSync(context.Background(), message("TagA", "k", "again")); err != nil {
		return err
	}
	if err := frame.Within("a second delivery", 60*time.Second, func() bool { return len(seen.all()) >= 2 }); err != nil {
		return fmt.Errorf("%v, seen %v", err, seen.all())
	}
	return same(seen.all(), []string{"again0", "again1"})
}

func orderly() error {
	if err := created(); err != nil {
		return err
	}
	p, err := rocketmq.NewProducer(
		producer.WithNsResolver(resolver()), producer.WithGroupName("pg_"+topic), producer.WithQueueSelector(producer.NewHashQueueSelector()),
	)
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	defer p.Shutdown()
	for i := 0; i < 60; i++ {
		each := message("TagA", "k", fmt.Sprint(i))
		each.WithShardingKey(fmt.Sprint("lane", i%3))
		if _, err := p.SendSync(context.Background(), each); err != nil {
			return err
		}
	}
	seen := map[string]*bag{"lane0": {}, "lane1": {}, "lane2": {}}
	c, err := subscribed("*", true, func(each *primitive.MessageExt) consumer.ConsumeResult {
		seen[each.GetShardingKey()].add(string(each.Body))
		return consumer.ConsumeSuccess
	})
	if err != nil {
		return err
	}
	defer c.Shutdown()
	for lane := 0; lane < 3; lane++ {
		mine := seen[fmt.Sprint("lane", lane)]
		if err := frame.Within("a lane consumed", 60*time.Second, func() bool { return len(mine.all()) >= 20 }); err != nil {
			return err
		}
		for at, body := range mine.all() {
			if body != fmt.Sprint(at*3+lane) {
				return fmt.Errorf("lane %d out of order: %v", lane, mine.all())
			}
		}
	}
	return nil
}

func administer() error {
	if err := created(); err != nil {
		return err
	}
	tool, err := admin.NewAdmin(admin.WithResolver(resolver()))
	if err != nil {
		return err
	}
	defer tool.Close()
	ctx := context.Background()
	list, err := tool.FetchAllTopicList(ctx)
	if err != nil {
		return err
	}
	if !strings.Contains(" "+strings.Join(list.TopicList, " ")+" ", " "+topic+" ") {
		return fmt.Errorf("the topic is not listed: %v", list.TopicList)
	}
	queues, err := tool.FetchPublishMessageQueues(ctx, topic)
	if err != nil || len(queues) != 8 {
		return fmt.Errorf("queues: %v %v", queues, err)
	}
	return tool.DeleteTopic(ctx, admin.WithTopicDelete(topic), admin.WithBrokerAddrDelete(os.Args[4]), admin.WithNameSrvAddr([]string{nameserver}))
}
