import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByRandom;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Bodies, properties and the choice of queues. */
final class Sending {
    private static final int LIMIT = 4 * 1024 * 1024;

    private Sending() {
    }

    private static DefaultMQProducer plain(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        producer.setMaxMessageSize(4 * LIMIT);
        return producer;
    }

    private static void refused(DefaultMQProducer producer, Message message) throws Exception {
        try {
            producer.send(message);
        } catch (MQBrokerException error) {
            Stage.check(error.getResponseCode() == 13, error.toString());
            return;
        }
        throw new AssertionError("a message above the limit was taken");
    }

    /** 4 MiB are taken and come out; a byte more is 13, and so is a batch above it. */
    static void limit(Stage stage) throws Exception {
        DefaultMQProducer producer = plain(stage);
        ConcurrentLinkedQueue<Integer> sizes = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(each -> sizes.add(each.getBody().length));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        producer.send(new Message(stage.topic, new byte[LIMIT]));
        refused(producer, new Message(stage.topic, new byte[LIMIT + 1]));
        List<Message> batch = new ArrayList<>();
        for (int at = 0; at < 3; at++) {
            batch.add(new Message(stage.topic, new byte[LIMIT / 2]));
        }
        try {
            producer.send(batch);
            throw new AssertionError("a batch above the limit was taken");
        } catch (MQBrokerException error) {
            Stage.check(error.getResponseCode() == 13, error.toString());
        }
        Message wordy = new Message(stage.topic, new byte[1]);
        wordy.putUserProperty("long", "x".repeat(32_768));
        refused(producer, wordy);
        Stage.until("the largest message", 60, () -> !sizes.isEmpty());
        Thread.sleep(500);
        Stage.check(List.copyOf(sizes).equals(List.of(LIMIT)), sizes.toString());
    }

    /** Each compressor of the SDK, and the body comes out as it went in. */
    static void compressed(Stage stage) throws Exception {
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        Set<String> wanted = new HashSet<>();
        stage.producer();
        stage.into(seen, stage.group, stage.topic);
        for (CompressionType type : CompressionType.values()) {
            DefaultMQProducer producer = stage.started(new DefaultMQProducer("pg-" + type));
            producer.setCompressType(type);
            producer.setCompressMsgBodyOverHowmuch(1_024);
            for (int number = 0; number < 4; number++) {
                String body = type + " " + number + " " + "zwölf Boxkämpfer ".repeat(2_000);
                producer.send(new Message(stage.topic, "TagA", type + "-" + number, body.getBytes(StandardCharsets.UTF_8)));
                wanted.add(body);
            }
        }
        Stage.until("all decompressed", 60, () -> seen.size() >= wanted.size());
        Stage.same(seen, wanted);
    }

    /** Tags, keys and properties of whatever characters the SDK lets pass come out the same, and select. */
    static void characters(Stage stage) throws Exception {
        StringBuilder latin = new StringBuilder();
        for (char each = 0x20; each < 0x250; each++) {
            if (each < 0x7f || each > 0x9f) {
                latin.append(each);
            }
        }
        Map<String, String> properties = new HashMap<>();
        properties.put("latin", latin.toString());
        properties.put("emoji", "\uD83D\uDE80 標題 \u0633\u0644\u0627\u0645 \u2028");
        properties.put("control", "tab\tline\nquote\"back\\slash\u0003end");
        properties.put("größe mit Leerzeichen", "=;|&%{}[]");
        String tag = "tag-ß-標-\uD83D\uDE80";
        DefaultMQProducer producer = stage.producer();
        ConcurrentLinkedQueue<MessageExt> byTag = new ConcurrentLinkedQueue<>();
        ConcurrentLinkedQueue<MessageExt> bySql = new ConcurrentLinkedQueue<>();
        select(stage, "tag", MessageSelector.byTag("other || " + tag), byTag);
        select(stage, "sql", MessageSelector.bySql("emoji = '" + properties.get("emoji") + "'"), bySql);
        Message message = new Message(stage.topic, tag, "", "body".getBytes(StandardCharsets.UTF_8));
        message.setKeys(List.of("schlüssel", "標題", "a:b#c"));
        properties.forEach(message::putUserProperty);
        producer.send(stage.message("neither"));
        SendResult sent = producer.send(message);
        Stage.until("by tag and by property", 60, () -> !byTag.isEmpty() && !bySql.isEmpty());
        Thread.sleep(500);
        Stage.check(byTag.size() == 1 && bySql.size() == 1, "by tag " + byTag.size() + ", by SQL " + bySql.size());
        for (MessageExt each : List.of(byTag.peek(), bySql.peek(), producer.queryMessage(stage.topic, "schlüssel", 4, 0,
            System.currentTimeMillis() + 60_000).getMessageList().get(0), producer.viewMessage(stage.topic, sent.getMsgId()))) {
            Stage.check(tag.equals(each.getTags()) && each.getKeys().equals("schlüssel 標題 a:b#c"), each.toString());
            properties.forEach((name, value) ->
                Stage.check(value.equals(each.getUserProperty(name)), name + ": " + each.getUserProperty(name)));
        }
    }

    private static void select(Stage stage, String name, MessageSelector selector, ConcurrentLinkedQueue<MessageExt> seen)
        throws Exception {
        DefaultMQPushConsumer consumer = stage.consumer(stage.group + "-" + name, stage.topic);
        consumer.subscribe(stage.topic, selector);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            seen.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    /** Queues chosen by hash, at random, by hand: synchronously, asynchronously, one way. */
    static void selectors(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(stage.topic);
        Map<String, Integer> places = new HashMap<>();
        CountDownLatch answered = new CountDownLatch(queues.size());
        SelectMessageQueueByHash hash = new SelectMessageQueueByHash();
        for (int number = 0; number < queues.size(); number++) {
            MessageQueue queue = queues.get(number);
            String key = "key" + number;
            Message hashed = stage.message("hash" + number);
            SendResult result = producer.send(hashed, hash, key);
            MessageQueue chosen = hash.select(queues, hashed, key);
            Stage.check(result.getMessageQueue().getQueueId() == chosen.getQueueId(), result + ", wanted " + chosen);
            places.put("hash" + number, chosen.getQueueId());
            result = producer.send(stage.message("random" + number), new SelectMessageQueueByRandom(), null);
            places.put("random" + number, result.getMessageQueue().getQueueId());
            Stage.check(producer.send(stage.message("hand" + number), queue).getMessageQueue().equals(queue), "another queue");
            producer.sendOneway(stage.message("oneway" + number), queue);
            producer.sendOneway(stage.message("chosen" + number), (all, each, choice) -> queue, null);
            producer.send(stage.message("async" + number), queue, new SendCallback() {
                @Override
                public void onSuccess(SendResult sent) {
                    if (sent.getMessageQueue().equals(queue)) {
                        answered.countDown();
                    }
                }

                @Override
                public void onException(Throwable error) {
                    error.printStackTrace();
                }
            });
            for (String name : List.of("hand", "oneway", "chosen", "async")) {
                places.put(name + number, queue.getQueueId());
            }
        }
        Stage.check(answered.await(30, TimeUnit.SECONDS), "asynchronous sends by queue were not answered");
        Map<String, Integer> seen = new ConcurrentHashMap<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(each -> seen.put(Stage.text(each), each.getQueueId()));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Stage.until("all of the chosen queues", 60, () -> seen.size() >= places.size());
        Stage.check(seen.equals(places), "places " + seen + ", wanted " + places);
    }
}
