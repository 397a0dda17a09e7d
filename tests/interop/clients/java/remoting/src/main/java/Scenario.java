import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
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
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** One scenario a run: `Scenario NAME NAMESERVER TOPIC [BROKER]`. Exits 0 when all that it expects came true. */
public final class Scenario {
    private static String nameserver;
    private static String topic;

    private Scenario() {
    }

    public static void main(String[] args) {
        try {
            run(args);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.out.println("OK " + args[0]);
        System.exit(0);
    }

    private static void run(String[] args) throws Exception {
        nameserver = args[1];
        topic = args[2];
        switch (args[0]) {
            case "send": send(); break;
            case "push": push(); break;
            case "retry": retry(); break;
            case "orderly": orderly(); break;
            case "broadcast": broadcast(); break;
            case "pop": pop(args[3]); break;
            case "query": query(); break;
            case "begin": begin(); break;
            case "once": once(); break;
            case "produce": produce(Integer.parseInt(args[3])); break;
            case "drain": drain(Integer.parseInt(args[3])); break;
            default: throw new IllegalArgumentException(args[0]);
        }
    }

    /** Fresh groups of a topic whose first messages are no longer in the newest part of the log. */
    private static void begin() throws Exception {
        DefaultMQProducer producer = prepared();
        Set<String> early = sent(producer, "early");
        for (int i = 0; i < 64; i++) {
            producer.send(new Message(topic + "Other", new byte[1_024]));
        }
        Thread.sleep(1_100);
        String instant = new java.text.SimpleDateFormat("yyyyMMddHHmmss").format(new java.util.Date());
        Thread.sleep(1_100);
        Set<String> late = sent(producer, "late");
        List<ConcurrentLinkedQueue<String>> seen = new ArrayList<>();
        for (ConsumeFromWhere where : List.of(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET)) {
            ConcurrentLinkedQueue<String> bodies = new ConcurrentLinkedQueue<>();
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("cg" + seen.size() + topic);
            consumer.setNamesrvAddr(nameserver);
            consumer.setInstanceName("begin" + seen.size());
            consumer.setConsumeFromWhere(where);
            consumer.setConsumeTimestamp(instant);
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(each -> bodies.add(text(each)));
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            until("it has its queues", 60,
                () -> consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().size() == 9);
            seen.add(bodies);
        }
        Set<String> wanted = sent(producer, "last");
        for (int at = 2; at >= 0; at--) {
            ConcurrentLinkedQueue<String> bodies = seen.get(at);
            int count = wanted.size();
            until(count + " messages of group " + at, 60, () -> bodies.size() >= count);
            Thread.sleep(500);
            check(bodies.size() == count && new HashSet<>(bodies).equals(wanted), "group " + at + ": " + bodies);
            wanted.addAll(at == 2 ? late : early);
        }
    }

    private static Set<String> sent(DefaultMQProducer producer, String name) throws Exception {
        Set<String> bodies = new HashSet<>();
        for (int i = 0; i < 24; i++) {
            producer.send(message("TagA", name + i, name + i));
            bodies.add(name + i);
        }
        return bodies;
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
        producer.createTopic("TBW102", topic, 8, Map.of());
        return producer;
    }

    private static Message message(String tag, String key, String body) {
        return new Message(topic, tag, key, body.getBytes(StandardCharsets.UTF_8));
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

    private static String text(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    private static void send() throws Exception {
        DefaultMQProducer producer = producer();
        Set<String> wanted = new HashSet<>();
        for (int i = 0; i < 20; i++) {
            SendResult result = producer.send(message("TagA", "key" + i, "sync" + i));
            check(result.getSendStatus() == SendStatus.SEND_OK, result.toString());
            check(result.getOffsetMsgId().length() == 32 && !result.getMsgId().isEmpty(), result.toString());
            wanted.add("sync" + i);
        }
        CountDownLatch answered = new CountDownLatch(20);
        for (int i = 0; i < 20; i++) {
            wanted.add("async" + i);
            producer.send(message("TagA", "key" + i, "async" + i), new SendCallback() {
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
        check(answered.await(20, TimeUnit.SECONDS), "async sends were not answered");
        for (int i = 0; i < 20; i++) {
            producer.sendOneway(message("TagA", "key" + i, "oneway" + i));
            wanted.add("oneway" + i);
        }
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            batch.add(message("TagB", "key" + i, "batch" + i));
            wanted.add("batch" + i);
        }
        SendResult result = producer.send(batch);
        check(result.getSendStatus() == SendStatus.SEND_OK, result.toString());
        check(result.getOffsetMsgId().split(",").length == 20, result.toString());
        byte[] large = new byte[100_000];
        producer.send(new Message(topic, "TagA", "large", large));
        Collection<MessageExt> found = pulled(wanted.size() + 1);
        for (MessageExt each : found) {
            if (each.getBody().length == large.length) {
                continue;
            }
            check(wanted.remove(text(each)), "twice or never sent: " + text(each));
            check(each.getProperty("HG_PROTOCOL") == null, "a property of origin came out");
        }
        check(wanted.isEmpty(), "missing: " + wanted);
        producer.shutdown();
    }

    /** A message that is sent again keeps the id that its first send gave it. */
    private static void once() throws Exception {
        DefaultMQProducer producer = producer();
        Message first = message("TagA", "key", "first");
        Message second = message("TagA", "key", "second");
        SendResult one = producer.send(first);
        producer.send(second);
        for (int i = 0; i < 3; i++) {
            SendResult again = producer.send(first);
            check(again.getMsgId().equals(one.getMsgId()), "ids " + again.getMsgId() + ", " + one.getMsgId());
            check(again.getMessageQueue().equals(one.getMessageQueue()) && again.getQueueOffset() == one.getQueueOffset(),
                again + " is not the place of " + one);
        }
        producer.shutdown();
    }

    private static Collection<MessageExt> pulled(int count) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("cg_pull_" + topic);
        consumer.setNamesrvAddr(nameserver);
        consumer.setAutoCommit(true);
        // Not by seeking: the client interrupts the pulls that it has begun, and an interrupted one closes its connection.
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.start();
        consumer.assign(consumer.fetchMessageQueues(topic));
        List<MessageExt> found = new ArrayList<>();
        until("all messages pulled", 30, () -> {
            found.addAll(consumer.poll(200));
            return found.size() >= count;
        });
        check(found.size() == count, found.size() + " messages instead of " + count);
        consumer.shutdown();
        return found;
    }

    private static DefaultMQPushConsumer consumer(String group, String name, String tags) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameserver);
        consumer.setInstanceName(name);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, tags);
        return consumer;
    }

    private static long owned(DefaultMQPushConsumer consumer) {
        return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
            .filter(queue -> queue.getTopic().equals(topic)).count();
    }

    private static MessageListenerConcurrently into(ConcurrentLinkedQueue<String> bodies) {
        return (messages, context) -> {
            messages.forEach(each -> bodies.add(text(each)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    }

    private static void push() throws Exception {
        DefaultMQProducer producer = prepared();
        ConcurrentLinkedQueue<String> first = new ConcurrentLinkedQueue<>();
        ConcurrentLinkedQueue<String> second = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer one = consumer("cg_" + topic, "one", "TagA || TagB");
        one.registerMessageListener(into(first));
        one.start();
        long queues = one.fetchSubscribeMessageQueues(topic).size();
        until("one member owns every queue", 20, () -> owned(one) == queues);
        DefaultMQPushConsumer two = consumer("cg_" + topic, "two", "TagA || TagB");
        two.registerMessageListener(into(second));
        two.start();
        until("two members share the queues", 15, () -> owned(one) == queues / 2 && owned(two) == queues / 2);
        Set<String> wanted = new HashSet<>();
        for (int i = 0; i < 90; i++) {
            String tag = i % 3 == 0 ? "TagA" : i % 3 == 1 ? "TagB" : "TagC";
            producer.send(message(tag, "k", "m" + i));
            if (i % 3 != 2) {
                wanted.add("m" + i);
            }
        }
        until("all wanted messages consumed", 20, () -> first.size() + second.size() >= wanted.size());
        check(!first.isEmpty() && !second.isEmpty(), "one member got everything");
        two.shutdown();
        until("the other member takes over", 15, () -> owned(one) == queues);
        for (int i = 90; i < 120; i++) {
            producer.send(message("TagA", "k", "m" + i));
            wanted.add("m" + i);
        }
        until("all messages consumed by the one left", 20, () -> first.size() + second.size() >= wanted.size());
        Thread.sleep(500);
        List<String> all = new ArrayList<>(first);
        all.addAll(second);
        check(new HashSet<>(all).equals(wanted), "wrong messages");
        check(all.size() == wanted.size(), all.size() - wanted.size() + " messages came twice");
        one.shutdown();
        producer.shutdown();
    }

    private static void retry() throws Exception {
        DefaultMQProducer producer = prepared();
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = consumer("cg_" + topic, "one", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt each = messages.get(0);
            seen.add(text(each) + " " + each.getReconsumeTimes() + " " + each.getTopic());
            if (each.getReconsumeTimes() < 2) {
                context.setDelayLevelWhenNextConsume(1);
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        producer.send(message("TagA", "k", "again"));
        for (int i = 1; i <= 3; i++) {
            int wanted = i;
            until("delivery " + i + " after " + seen, 20, () -> seen.size() >= wanted);
        }
        check(new ArrayList<>(seen).equals(List.of("again 0 " + topic, "again 1 " + topic, "again 2 " + topic)), seen.toString());
        consumer.shutdown();
        producer.shutdown();
    }

    private static void orderly() throws Exception {
        DefaultMQProducer producer = prepared();
        Map<String, ConcurrentLinkedQueue<Integer>> seen = new ConcurrentHashMap<>();
        AtomicInteger count = new AtomicInteger();
        DefaultMQPushConsumer consumer = consumer("cg_" + topic, "one", "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt each : messages) {
                seen.computeIfAbsent(each.getKeys(), key -> new ConcurrentLinkedQueue<>()).add(Integer.valueOf(text(each)));
                count.incrementAndGet();
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        for (int i = 0; i < 80; i++) {
            int lane = i % 4;
            producer.send(message("TagA", "lane" + lane, String.valueOf(i)), (queues, each, choice) -> queues.get(lane), null);
        }
        consumer.start();
        until("all lanes consumed", 40, () -> count.get() >= 80);
        for (int lane = 0; lane < 4; lane++) {
            List<Integer> wanted = new ArrayList<>();
            for (int i = lane; i < 80; i += 4) {
                wanted.add(i);
            }
            check(new ArrayList<>(seen.get("lane" + lane)).equals(wanted), "out of order: " + seen.get("lane" + lane));
        }
        consumer.shutdown();
        producer.shutdown();
    }

    private static void broadcast() throws Exception {
        DefaultMQProducer producer = prepared();
        producer.send(message("TagA", "k", "m0"));
        List<ConcurrentLinkedQueue<String>> seen = List.of(new ConcurrentLinkedQueue<>(), new ConcurrentLinkedQueue<>());
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            DefaultMQPushConsumer consumer = consumer("cg_" + topic, "member" + i, "*");
            consumer.setMessageModel(org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel.BROADCASTING);
            consumer.registerMessageListener(into(seen.get(i)));
            consumer.start();
            consumers.add(consumer);
        }
        producer.send(message("TagA", "k", "m1"));
        until("everybody has everything", 30, () -> seen.get(0).size() >= 2 && seen.get(1).size() >= 2);
        consumers.forEach(DefaultMQPushConsumer::shutdown);
        producer.shutdown();
    }

    private static void pop(String broker) throws Exception {
        DefaultMQProducer producer = producer();
        producer.send(message("TagC", "k", "unwanted"));
        String group = "cg_" + topic;
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(nameserver);
        admin.start();
        admin.setMessageRequestMode(broker, topic, group, MessageRequestMode.POP, 0, 5000);
        ConcurrentLinkedQueue<String> first = new ConcurrentLinkedQueue<>();
        ConcurrentLinkedQueue<String> second = new ConcurrentLinkedQueue<>();
        AtomicInteger failures = new AtomicInteger();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (ConcurrentLinkedQueue<String> seen : List.of(first, second)) {
            DefaultMQPushConsumer consumer = consumer(group, "pop" + consumers.size(), "TagA");
            consumer.setClientRebalance(false);
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt each : messages) {
                    if (text(each).equals("m7") && each.getReconsumeTimes() == 0 && failures.getAndIncrement() == 0) {
                        context.setDelayLevelWhenNextConsume(1);
                        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                    }
                    seen.add(text(each));
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            consumers.add(consumer);
        }
        Set<String> wanted = new HashSet<>();
        for (int i = 0; i < 100; i++) {
            producer.send(message("TagA", "k", "m" + i));
            wanted.add("m" + i);
        }
        until("all messages popped, the refused one again", 60, () -> first.size() + second.size() >= wanted.size());
        Thread.sleep(500);
        List<String> all = new ArrayList<>(first);
        all.addAll(second);
        check(new HashSet<>(all).equals(wanted), "wrong messages");
        check(all.size() == wanted.size(), all.size() - wanted.size() + " messages came twice");
        check(failures.get() == 1, "the refused message was never refused");
        consumers.forEach(DefaultMQPushConsumer::shutdown);
        admin.shutdown();
        producer.shutdown();
    }

    private static void query() throws Exception {
        DefaultMQProducer producer = producer();
        long before = System.currentTimeMillis();
        SendResult result = producer.send(message("TagA", "k", "hello"));
        MessageQueue queue = result.getMessageQueue();
        check(producer.minOffset(queue) == 0, "min offset");
        check(producer.maxOffset(queue) == result.getQueueOffset() + 1, "max offset");
        check(producer.searchOffset(queue, before - 60_000) == 0, "search in the past");
        check(producer.searchOffset(queue, before + 60_000) == result.getQueueOffset() + 1, "search in the future");
        check(producer.earliestMsgStoreTime(queue) >= before - 5_000, "earliest time");
        MessageExt found = producer.viewMessage(topic, result.getOffsetMsgId());
        check(text(found).equals("hello") && found.getMsgId().equals(result.getMsgId()), found.toString());
        producer.shutdown();
    }

    private static void produce(int count) throws Exception {
        DefaultMQProducer producer = producer();
        for (int i = 0; i < count; i++) {
            producer.send(message("TagA", "k", "m" + i));
        }
        producer.shutdown();
    }

    private static void drain(int count) throws Exception {
        Set<String> bodies = new HashSet<>();
        pulled(count).forEach(each -> bodies.add(text(each)));
        check(bodies.size() == count, bodies.size() + " different messages instead of " + count);
    }
}
