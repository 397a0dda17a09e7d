package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// mixed is one push consumer of a group that others receive in. It says READY, then "got BODY" of each message, until its input ends.
func mixed() {
	said := make(chan string, 4096)
	made := joined("cg_"+topic, topic, "*", func(_ context.Context, each *primitive.MessageExt) consumer.ConsumeResult {
		said <- "got " + string(each.Body)
		time.Sleep(5 * time.Millisecond)
		return consumer.ConsumeSuccess
	})
	go func() {
		for line := range said {
			fmt.Println(line)
		}
	}()
	fmt.Println("READY")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	must(made.Shutdown())
	time.Sleep(200 * time.Millisecond)
}
