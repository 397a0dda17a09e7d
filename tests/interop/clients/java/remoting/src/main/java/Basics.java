import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/** Every way to send, and every kind of consumer. */
final class Basics {
    private static final int LANES = 4;

    private Basics() {
    }

    /** A producer of a topic that nobody has made. */
    private static DefaultMQProducer producer(Stage stage) throws Exception {
        return stage.started(new DefaultMQProducer("pg-" + stage.topic));
    }

    /** Synchronous, asynchronous, one-way and batch sends are all pulled. */
    static void send(Stage stage) throws Exception {
        DefaultMQProducer producer = producer(stage);
        Set<String> wanted = new HashSet<>();
        for (int i = 0; i < 20; i++) {
            SendResult result = producer.send(stage.message("sync" + i));
            Stage.check(result.getSendStatus() == SendStatus.SEND_OK, result.toString());
            Stage.check(result.getOffsetMsgId().length() == 32 && !result.getMsgId().isEmpty(), result.toString());
            wanted.add("sync" + i);
        }
        CountDownLatch answered = new CountDownLatch(20);
        for (int i = 0; i < 20; i++) {
            wanted.add("async" + i);
            producer.send(stage.message("async" + i), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    answered.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    error.printStackTrace();
                }
            });
        }
        Stage.check(answered.await(20, TimeUnit.SECONDS), "async sends were not answered");
        for (int i = 0; i < 20; i++) {
            producer.sendOneway(stage.message("oneway" + i));
            wanted.add("oneway" + i);
        }
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            batch.add(stage.message("TagB", "batch" + i));
            wanted.add("batch" + i);
        }
        SendResult result = producer.send(batch);
        Stage.check(result.getSendStatus() == SendStatus.SEND_OK, result.toString());
        Stage.check(result.getOffsetMsgId().split(",").length == 20, result.toString());
        String large = "l".repeat(100_000);
        producer.send(new Message(stage.topic, large.getBytes(StandardCharsets.US_ASCII)));
        wanted.add(large);
        Stage.same(pulled(stage, wanted.size()), wanted);
    }

    private static List<String> pulled(Stage stage, int count) throws Exception {
        DefaultLitePullConsumer consumer = Pulling.lite(stage);
        // Not by seeking: the client interrupts the pulls that it has begun, and an interrupted one closes its connection.
        consumer.start();
        stage.atEnd(consumer::shutdown);
        consumer.assign(consumer.fetchMessageQueues(stage.topic));
        List<String> found = new ArrayList<>();
        Stage.until(count + " messages pulled", 60, () -> {
            for (MessageExt each : consumer.poll(200)) {
                Stage.check(each.getProperty("HG_PROTOCOL") == null, "a property of origin came out");
                found.add(Stage.text(each));
            }
            return found.size() >= count;
        });
        return found;
    }

    /** A message that is sent again keeps the id that its first send gave it. */
    static void once(Stage stage) throws Exception {
        DefaultMQProducer producer = producer(stage);
        Message first = stage.message("first");
        SendResult one = producer.send(first);
        producer.send(stage.message("second"));
        for (int i = 0; i < 3; i++) {
            SendResult again = producer.send(first);
            Stage.check(again.getMsgId().equals(one.getMsgId()), "ids " + again.getMsgId() + ", " + one.getMsgId());
            Stage.check(again.getMessageQueue().equals(one.getMessageQueue()) && again.getQueueOffset() == one.getQueueOffset(),
                again + " is not the place of " + one);
        }
    }

    private static DefaultMQPushConsumer member(Stage stage, ConcurrentLinkedQueue<String> bodies) throws Exception {
        DefaultMQPushConsumer member = stage.consumer();
        member.subscribe(stage.topic, "TagA || TagB");
        member.registerMessageListener(Stage.taking(bodies));
        member.start();
        return member;
    }

    /** Two members share the queues and get their tags; one of them takes over. */
    static void push(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        ConcurrentLinkedQueue<String> first = new ConcurrentLinkedQueue<>();
        ConcurrentLinkedQueue<String> second = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer one = member(stage, first);
        long queues = one.fetchSubscribeMessageQueues(stage.topic).size();
        Stage.until("one member owns every queue", 60, () -> stage.owned(one) == queues);
        DefaultMQPushConsumer two = member(stage, second);
        Stage.until("two members share the queues", 60, () -> stage.owned(one) == queues / 2 && stage.owned(two) == queues / 2);
        Set<String> wanted = new HashSet<>();
        for (int i = 0; i < 90; i++) {
            String tag = List.of("TagA", "TagB", "TagC").get(i % 3);
            producer.send(stage.message(tag, "m" + i));
            if (!tag.equals("TagC")) {
                wanted.add("m" + i);
            }
        }
        Stage.until("all wanted messages consumed", 60, () -> first.size() + second.size() >= wanted.size());
        Stage.check(!first.isEmpty() && !second.isEmpty(), "one member got everything");
        two.shutdown();
        Stage.until("the other member takes over", 60, () -> stage.owned(one) == queues);
        for (int i = 90; i < 120; i++) {
            producer.send(stage.message("m" + i));
            wanted.add("m" + i);
        }
        Stage.until("all messages consumed by the one left", 60, () -> first.size() + second.size() >= wanted.size());
        Thread.sleep(500);
        first.addAll(second);
        Stage.same(first, wanted);
    }

    /** A message to be consumed later is redelivered under its own topic. */
    static void retry(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt each = messages.get(0);
            seen.add(each.getReconsumeTimes() + " " + each.getTopic());
            context.setDelayLevelWhenNextConsume(1);
            return each.getReconsumeTimes() < 2 ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        producer.send(stage.message("again"));
        Stage.until("three deliveries", 60, () -> seen.size() >= 3);
        List<String> wanted = List.of("0 " + stage.topic, "1 " + stage.topic, "2 " + stage.topic);
        Stage.check(List.copyOf(seen).equals(wanted), seen.toString());
    }

    /** An orderly consumer locks its queues and sees each in the order of sending. */
    static void orderly(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        for (int number = 0; number < 40; number++) {
            int lane = number % LANES;
            producer.send(stage.message(String.valueOf(number)), (queues, each, choice) -> queues.get(lane), null);
        }
        Map<Integer, List<Integer>> seen = new HashMap<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            synchronized (seen) {
                for (MessageExt each : messages) {
                    seen.computeIfAbsent(each.getQueueId(), queue -> new ArrayList<>()).add(Integer.valueOf(Stage.text(each)));
                }
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        Stage.until("all lanes consumed", 90, () -> {
            synchronized (seen) {
                return seen.values().stream().mapToInt(List::size).sum() >= 40;
            }
        });
        for (int lane = 0; lane < LANES; lane++) {
            List<Integer> wanted = new ArrayList<>();
            for (int number = lane; number < 40; number += LANES) {
                wanted.add(number);
            }
            Stage.check(seen.containsValue(wanted), "out of order: " + seen);
        }
    }

    /** Every member of a broadcasting group gets everything. */
    static void broadcast(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        producer.send(stage.message("m0"));
        List<ConcurrentLinkedQueue<String>> seen = List.of(new ConcurrentLinkedQueue<>(), new ConcurrentLinkedQueue<>());
        for (ConcurrentLinkedQueue<String> bodies : seen) {
            DefaultMQPushConsumer consumer = stage.consumer();
            consumer.setMessageModel(MessageModel.BROADCASTING);
            consumer.registerMessageListener(Stage.taking(bodies));
            consumer.start();
        }
        producer.send(stage.message("m1"));
        Stage.until("everybody has everything", 60, () -> seen.get(0).size() >= 2 && seen.get(1).size() >= 2);
    }

    /** Two members whose server balances share the messages of their tag, and one that was refused is redelivered. */
    static void pop(Stage stage) throws Exception {
        DefaultMQProducer producer = producer(stage);
        producer.send(stage.message("TagC", "unwanted"));
        stage.popped(stage.group);
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        AtomicInteger failures = new AtomicInteger();
        for (int member = 0; member < 2; member++) {
            DefaultMQPushConsumer consumer = stage.consumer();
            consumer.subscribe(stage.topic, "TagA");
            consumer.setClientRebalance(false);
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt each : messages) {
                    if (Stage.text(each).equals("m7") && each.getReconsumeTimes() == 0 && failures.getAndIncrement() == 0) {
                        context.setDelayLevelWhenNextConsume(1);
                        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                    }
                    seen.add(Stage.text(each));
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
        }
        Set<String> wanted = new HashSet<>();
        for (int i = 0; i < 100; i++) {
            producer.send(stage.message("m" + i));
            wanted.add("m" + i);
        }
        Stage.until("all messages popped, the refused one again", 60, () -> seen.size() >= wanted.size());
        Thread.sleep(500);
        Stage.same(seen, wanted);
        Stage.check(failures.get() == 1, "the refused message was never refused");
    }

    /** Offsets, times, and one message by its id. */
    static void query(Stage stage) throws Exception {
        DefaultMQProducer producer = producer(stage);
        long before = System.currentTimeMillis();
        SendResult result = producer.send(stage.message("hello"));
        MessageQueue queue = result.getMessageQueue();
        Stage.check(producer.minOffset(queue) == 0, "min offset");
        Stage.check(producer.maxOffset(queue) == result.getQueueOffset() + 1, "max offset");
        Stage.check(producer.searchOffset(queue, before - 60_000) == 0, "search in the past");
        Stage.check(producer.searchOffset(queue, before + 60_000) == result.getQueueOffset() + 1, "search in the future");
        Stage.check(producer.earliestMsgStoreTime(queue) >= before - 5_000, "earliest time");
        MessageExt found = producer.viewMessage(stage.topic, result.getOffsetMsgId());
        Stage.check(Stage.text(found).equals("hello") && found.getMsgId().equals(result.getMsgId()), found.toString());
    }
}
