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

const patience = 60 * time.Second

var nameserver, topic string

func main() {
	rlog.SetLogLevel("error")
	nameserver, topic = os.Args[2], os.Args[3]
	scenarios := map[string]func(){"send": send, "push": push, "retry": retry, "orderly": orderly, "admin": administer, "transact": transact, "mixed": mixed, "request": request, "crash": crash, "dead": dead, "broadcast": broadcast, "later": later, "pull": pull, "sql": sql, "trace": trace, "spaces": spaces, "limit": limit, "by-hand": byHand, "reset": reset, "dead-orderly": deadOrderly, "guarded": guarded}
	defer func() {
		if err := recover(); err != nil {
			fmt.Println("FAILED", os.Args[1], err)
			os.Exit(1)
		}
	}()
	scenarios[os.Args[1]]()
	fmt.Println("OK", os.Args[1])
}

func resolver() primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{nameserver})
}

// must ends the scenario with an error, if there is one.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func got[T any](value T, err error) T {
	must(err)
	return value
}

func started(more ...producer.Option) rocketmq.Producer {
	options := append([]producer.Option{
		producer.WithNsResolver(resolver()), producer.WithGroupName("pg_" + topic), producer.WithRetry(0),
		producer.WithSendMsgTimeout(15 * time.Second),
	}, more...)
	made := got(rocketmq.NewProducer(options...))
	must(made.Start())
	return made
}

// create makes the topic, and waits until the name server knows it.
func create() {
	tool := got(admin.NewAdmin(admin.WithResolver(resolver())))
	defer tool.Close()
	must(tool.CreateTopic(context.Background(), admin.WithTopicCreate(topic), admin.WithBrokerAddrCreate(os.Args[4])))
	must(frame.Within("the route of the topic", patience, func() bool {
		queues, err := tool.FetchPublishMessageQueues(context.Background(), topic)
		return err == nil && len(queues) > 0
	}))
}

// begun starts a producer whose topic is there.
func begun(more ...producer.Option) rocketmq.Producer {
	create()
	return started(more...)
}

// joined starts a member of its own instance, with whatever else a scenario wants of it.
func joined(group, of, tags string, handle func(context.Context, *primitive.MessageExt) consumer.ConsumeResult, more ...consumer.Option) rocketmq.PushConsumer {
	options := append([]consumer.Option{
		consumer.WithNsResolver(resolver()), consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset), consumer.WithInstance(fmt.Sprint(time.Now().UnixNano())),
	}, more...)
	made := got(rocketmq.NewPushConsumer(options...))
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: tags}
	must(made.Subscribe(of, selector, func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		return handle(ctx, messages[0]), nil
	}))
	must(made.Start())
	return made
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

// take is what a member does that writes bodies down.
func (b *bag) take(_ context.Context, each *primitive.MessageExt) consumer.ConsumeResult {
	b.add(string(each.Body))
	return consumer.ConsumeSuccess
}

func (b *bag) await(what string, count int) {
	if err := frame.Within(what, patience, func() bool { return len(b.all()) >= count }); err != nil {
		panic(fmt.Errorf("%w: %v", err, b.all()))
	}
}

func same(got, wanted []string) error {
	sort.Strings(got)
	sort.Strings(wanted)
	if strings.Join(got, " ") != strings.Join(wanted, " ") {
		return fmt.Errorf("got %v, wanted %v", got, wanted)
	}
	return nil
}
