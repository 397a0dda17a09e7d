import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Sends of every kind, and consumers of the 4.x client that ask for themselves. */
final class Reading {
    private Reading() {
    }

    /** Synchronous, asynchronous, one-way and batch sends, all read back by the lite pull consumer from assigned queues. */
    static void send(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.started(new DefaultMQProducer("pg-" + stage.topic));
        Set<String> wanted = new HashSet<>();
        CountDownLatch answered = new CountDownLatch(10);
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            SendResult result = producer.send(stage.message("sync" + i));
            Stage.check(result.getSendStatus() == SendStatus.SEND_OK && result.getOffsetMsgId().length() == 32, result.toString());
            producer.send(stage.message("async" + i), new SendCallback() {
                @Override
                public void onSuccess(SendResult sent) {
                    answered.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    error.printStackTrace();
                }
            });
            producer.sendOneway(stage.message("oneway" + i));
            batch.add(stage.message("batch" + i));
            wanted.addAll(Arrays.asList("sync" + i, "async" + i, "oneway" + i, "batch" + i));
        }
        SendResult result = producer.send(batch);
        Stage.check(result.getOffsetMsgId().split(",").length == 10, result.toString());
        Stage.check(answered.await(20, TimeUnit.SECONDS), "async sends were not answered");
        producer.send(new Message(stage.topic, "TagA", "large", new byte[100_000]));
        DefaultLitePullConsumer consumer = lite(stage);
        // Not by seeking: the client interrupts the pulls that it has begun, and an interrupted one closes its connection.
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.start();
        consumer.assign(consumer.fetchMessageQueues(stage.topic));
        List<MessageExt> found = new ArrayList<>();
        Stage.until("all messages pulled", 60, () -> {
            found.addAll(consumer.poll(200));
            return found.size() >= 41;
        });
        for (MessageExt each : found) {
            Stage.check(each.getBody().length == 100_000 || wanted.remove(Stage.text(each)), "twice or never sent: " + each);
        }
        Stage.check(wanted.isEmpty() && found.size() == 41, "missing: " + wanted);
    }

    private static DefaultLitePullConsumer lite(Stage stage) {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(stage.group);
        consumer.setNamesrvAddr(stage.nameserver);
        consumer.setInstanceName(Stage.name());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        stage.atEnd(consumer::shutdown);
        return consumer;
    }

    /** The pull consumer: queues, positions and stored offsets in the application's own hands. */
    static void pull(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        for (int i = 0; i < 40; i++) {
            producer.send(stage.message("m" + i));
        }
        @SuppressWarnings("deprecation")
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(stage.group);
        consumer.setNamesrvAddr(stage.nameserver);
        consumer.setInstanceName(Stage.name());
        consumer.start();
        stage.atEnd(consumer::shutdown);
        Set<String> found = new HashSet<>();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(stage.topic)) {
            long offset = consumer.minOffset(queue);
            while (offset < consumer.maxOffset(queue)) {
                PullResult result = consumer.pull(queue, "TagA", offset, 7);
                Stage.check(result.getPullStatus() == PullStatus.FOUND, result.toString());
                result.getMsgFoundList().forEach(each -> found.add(Stage.text(each)));
                offset = result.getNextBeginOffset();
            }
            Stage.check(consumer.pull(queue, "TagA", offset, 7).getPullStatus() == PullStatus.NO_NEW_MSG, "there is more");
            consumer.updateConsumeOffset(queue, offset);
            consumer.getDefaultMQPullConsumerImpl().getOffsetStore().updateConsumeOffsetToBroker(queue, offset, false);
            Stage.check(consumer.fetchConsumeOffset(queue, true) == offset, "the offset was not stored");
        }
        Stage.check(found.size() == 40, found.size() + " of 40");
    }

    /** Two lite pull consumers one after the other in a group that subscribes: the second begins where the first has committed. */
    static void subscribe(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        List<String> wanted = new ArrayList<>();
        for (String round : List.of("first", "second")) {
            for (int i = 0; i < 20; i++) {
                producer.send(stage.message(round + i));
                wanted.add(round + i);
            }
            DefaultLitePullConsumer consumer = lite(stage);
            consumer.setAutoCommit(false);
            consumer.subscribe(stage.topic, "TagA");
            consumer.start();
            Stage.until("the messages of the " + round + " consumer", 60, () -> {
                consumer.poll(200).forEach(each -> seen.add(Stage.text(each)));
                return seen.size() >= wanted.size();
            });
            consumer.poll(1000).forEach(each -> seen.add(Stage.text(each)));
            consumer.commitSync();
            consumer.shutdown();
        }
        Stage.same("both consumers", seen, wanted);
    }
}
