package main

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// mixed is one push consumer of a group that others receive in. It says READY, then "got BODY" of each message, until its input ends.
func mixed() error {
	said := make(chan string, 4096)
	made, err := subscribed("*", false, func(each *primitive.MessageExt) consumer.ConsumeResult {
		said <- "got " + string(each.Body)
		time.Sleep(5 * time.Millisecond)
		return consumer.ConsumeSuccess
	})
	if err != nil {
		return err
	}
	go func() {
		for line := range said {
			fmt.Println(line)
		}
	}()
	fmt.Println("READY")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	err = made.Shutdown()
	time.Sleep(200 * time.Millisecond)
	return err
}
