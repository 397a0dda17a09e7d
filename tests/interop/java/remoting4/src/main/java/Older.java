import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Scenarios of the 4.x client, all in one process: `Older NAMESERVER PREFIX`. Says `OK NAME` for each, and ends at the first that fails. */
public final class Older {
    private static String nameserver;
    private static String topic;

    private Older() {
    }

    private interface Scenario {
        void run() throws Exception;
    }

    public static void main(String[] args) {
        nameserver = args[0];
        Map<String, Scenario> scenarios = new LinkedHashMap<>();
        scenarios.put("send", Older::send);
        scenarios.put("pull", Older::pull);
        scenarios.put("retry", Older::retry);
        scenarios.put("orderly", Older::orderly);
        scenarios.put("delay", Older::delay);
        try {
            for (Map.Entry<String, Scenario> each : scenarios.entrySet()) {
                topic = args[1] + each.getKey();
                each.getValue().run();
                System.out.println("OK " + each.getKey());
            }
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    private static DefaultMQProducer producer() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("pg_" + topic);
        producer.setNamesrvAddr(nameserver);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        return producer;
    }

    /** A producer whose topic is there: a consumer asks for the route of an unknown topic every 30 s only. */
    private static DefaultMQProducer prepared() throws Exception {
        DefaultMQProducer producer = producer();
        producer.createTopic("TBW102", topic, 4);
        return producer;
    }

    private static Message message(String key, String body) {
        return new Message(topic, "TagA", key, body.getBytes(StandardCharsets.UTF_8));
    }

    private static String text(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static void until(String what, int seconds, BooleanSupplier holds) throws Exception {
        long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (!holds.getAsBoolean()) {
            check(System.nanoTime() < limit, "not within " + seconds + " s: " + what);
            Thread.sleep(20);
        }
    }

    /** Synchronous, asynchronous, one-way and batch sends, all read back by the lite pull consumer. */
    private static void send() throws Exception {
        DefaultMQProducer producer = producer();
        Set<String> wanted = new HashSet<>();
        CountDownLatch answered = new CountDownLatch(10);
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            SendResult result = producer.send(message("key" + i, "sync" + i));
            check(result.getSendStatus() == SendStatus.SEND_OK && result.getOffsetMsgId().length() == 32, result.toString());
            producer.send(message("key" + i, "async" + i), new SendCallback() {
                @Override
                public void onSuccess(SendResult sent) {
                    answered.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    error.printStackTrace();
                }
            });
            producer.sendOneway(message("key" + i, "oneway" + i));
            batch.add(message("key" + i, "batch" + i));
            wanted.addAll(Arrays.asList("sync" + i, "async" + i, "oneway" + i, "batch" + i));
        }
        SendResult result = producer.send(batch);
        check(result.getOffsetMsgId().split(",").length == 10, result.toString());
        check(answered.await(20, TimeUnit.SECONDS), "async sends were not answered");
        producer.send(new Message(topic, "TagA", "large", new byte[100_000]));
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("cg_" + topic);
        consumer.setNamesrvAddr(nameserver);
        consumer.start();
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(topic);
        consumer.assign(queues);
        for (MessageQueue queue : queues) {
            consumer.seekToBegin(queue);
        }
        List<MessageExt> found = new ArrayList<>();
        until("all messages pulled", 30, () -> {
            found.addAll(consumer.poll(200));
            return found.size() >= 41;
        });
        for (MessageExt each : found) {
            check(each.getBody().length == 100_000 || wanted.remove(text(each)), "twice or never sent: " + each);
        }
        check(wanted.isEmpty() && found.size() == 41, "missing: " + wanted);
        consumer.shutdown();
        producer.shutdown();
    }

    /** The pull consumer: queues, positions and stored offsets in the application's own hands. */
    private static void pull() throws Exception {
        DefaultMQProducer producer = prepared();
        for (int i = 0; i < 40; i++) {
            producer.send(message("k", "m" + i));
        }
        @SuppressWarnings("deprecation")
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("cg_" + topic);
        consumer.setNamesrvAddr(nameserver);
        consumer.start();
        Set<String> found = new HashSet<>();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
            long offset = consumer.minOffset(queue);
            while (offset < consumer.maxOffset(queue)) {
                PullResult result = consumer.pull(queue, "TagA", offset, 7);
                check(result.getPullStatus() == PullStatus.FOUND, result.toString());
                result.getMsgFoundList().forEach(each -> found.add(text(each)));
                offset = result.getNextBeginOffset();
            }
            check(consumer.pull(queue, "TagA", offset, 7).getPullStatus() == PullStatus.NO_NEW_MSG, "there is more");
            consumer.updateConsumeOffset(queue, offset);
            consumer.getDefaultMQPullConsumerImpl().getOffsetStore().updateConsumeOffsetToBroker(queue, offset, false);
            check(consumer.fetchConsumeOffset(queue, true) == offset, "the offset was not stored");
        }
        check(found.size() == 40, found.size() + " of 40");
        consumer.shutdown();
        producer.shutdown();
    }

    private static DefaultMQPushConsumer consumer() throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("cg_" + topic);
        consumer.setNamesrvAddr(nameserver);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "TagA || TagB");
        return consumer;
    }

    /** A push consumer that refuses a message twice gets it three times. */
    private static void retry() throws Exception {
        DefaultMQProducer producer = prepared();
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = consumer();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt each = messages.get(0);
            seen.add(text(each) + " " + each.getReconsumeTimes() + " " + each.getTopic());
            if (each.getReconsumeTimes() < 2 && text(each).equals("again")) {
                context.setDelayLevelWhenNextConsume(1);
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        producer.send(message("k", "again"));
        Set<String> wanted = new HashSet<>();
        for (int i = 0; i < 3; i++) {
            wanted.add("again " + i + " " + topic);
        }
        for (int i = 0; i < 20; i++) {
            producer.send(message("k", "m" + i));
            wanted.add("m" + i + " 0 " + topic);
        }
        until("all deliveries, of which there are " + wanted.size(), 40, () -> seen.size() >= wanted.size());
        Thread.sleep(500);
        check(new HashSet<>(seen).equals(wanted) && seen.size() == wanted.size(), seen.toString());
        consumer.shutdown();
        producer.shutdown();
    }

    /** An orderly consumer sees each queue in the order of sending, a suspended message again before its followers. */
    private static void orderly() throws Exception {
        DefaultMQProducer producer = prepared();
        Map<String, List<String>> seen = new HashMap<>();
        Set<String> suspended = new HashSet<>();
        for (int i = 0; i < 80; i++) {
            int lane = i % 4;
            producer.send(message("lane" + lane, "m" + i), (queues, each, choice) -> queues.get(lane), null);
        }
        DefaultMQPushConsumer consumer = consumer();
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            synchronized (seen) {
                for (MessageExt each : messages) {
                    if (text(each).equals("m40") && suspended.add("m40")) {
                        context.setSuspendCurrentQueueTimeMillis(200);
                        return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                    }
                    seen.computeIfAbsent(each.getKeys(), key -> new ArrayList<>()).add(text(each));
                }
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        until("all lanes consumed", 50, () -> {
            synchronized (seen) {
                return seen.values().stream().mapToInt(List::size).sum() >= 80;
            }
        });
        for (int lane = 0; lane < 4; lane++) {
            List<String> wanted = new ArrayList<>();
            for (int i = lane; i < 80; i += 4) {
                wanted.add("m" + i);
            }
            check(seen.get("lane" + lane).equals(wanted), "out of order: " + seen.get("lane" + lane));
        }
        check(suspended.contains("m40"), "nothing was suspended");
        consumer.shutdown();
        producer.shutdown();
    }

    /** A message of delay level 2 comes after its five seconds. */
    private static void delay() throws Exception {
        DefaultMQProducer producer = prepared();
        ConcurrentLinkedQueue<Long> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = consumer();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            seen.add(System.currentTimeMillis());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        long before = System.currentTimeMillis();
        Message late = message("k", "late");
        late.setDelayTimeLevel(2);
        producer.send(late);
        until("the delayed message", 30, () -> !seen.isEmpty());
        check(seen.peek() - before >= 5_000, "after " + (seen.peek() - before) + " ms");
        consumer.shutdown();
        producer.shutdown();
    }
}
