import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;

/** Push consumers of the 4.x client. */
final class Pushing {
    private static final int[] LEVELS_S = {1, 5, 10, 30};

    private Pushing() {
    }

    /** A push consumer that refuses a message twice gets it three times. */
    static void retry(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt each = messages.get(0);
            seen.add(Stage.text(each) + " " + each.getReconsumeTimes() + " " + each.getTopic());
            if (each.getReconsumeTimes() < 2 && Stage.text(each).equals("again")) {
                context.setDelayLevelWhenNextConsume(1);
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        producer.send(stage.message("again"));
        Set<String> wanted = new HashSet<>();
        for (int i = 0; i < 3; i++) {
            wanted.add("again " + i + " " + stage.topic);
        }
        for (int i = 0; i < 20; i++) {
            producer.send(stage.message("m" + i));
            wanted.add("m" + i + " 0 " + stage.topic);
        }
        Stage.same("deliveries", seen, wanted);
    }

    /** An orderly consumer sees each queue in the order of sending, a suspended message again before its followers. */
    static void orderly(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        Map<Integer, List<String>> seen = new HashMap<>();
        Set<String> suspended = ConcurrentHashMap.newKeySet();
        for (int i = 0; i < 80; i++) {
            int lane = i % Stage.QUEUES;
            producer.send(stage.message("m" + i), (queues, each, choice) -> queues.get(lane), null);
        }
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            synchronized (seen) {
                for (MessageExt each : messages) {
                    if (Stage.text(each).equals("m40") && suspended.add("m40")) {
                        context.setSuspendCurrentQueueTimeMillis(200);
                        return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                    }
                    seen.computeIfAbsent(each.getQueueId(), queue -> new ArrayList<>()).add(Stage.text(each));
                }
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        Stage.until("all lanes consumed", 90, () -> {
            synchronized (seen) {
                return seen.values().stream().mapToInt(List::size).sum() >= 80;
            }
        });
        for (int lane = 0; lane < Stage.QUEUES; lane++) {
            List<String> wanted = new ArrayList<>();
            for (int i = lane; i < 80; i += Stage.QUEUES) {
                wanted.add("m" + i);
            }
            Stage.check(seen.containsValue(wanted), "out of order: " + seen);
        }
        Stage.check(suspended.contains("m40"), "nothing was suspended");
    }

    /** Each of two members of a broadcasting group has every message. */
    static void broadcast(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<String> wanted = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            producer.send(stage.message("m" + i));
            wanted.add("m" + i);
        }
        List<ConcurrentLinkedQueue<String>> seen = List.of(new ConcurrentLinkedQueue<>(), new ConcurrentLinkedQueue<>());
        for (ConcurrentLinkedQueue<String> each : seen) {
            DefaultMQPushConsumer consumer = stage.consumer();
            consumer.setMessageModel(MessageModel.BROADCASTING);
            consumer.registerMessageListener(Stage.taking(each));
            consumer.start();
        }
        for (int i = 20; i < 40; i++) {
            producer.send(stage.message("m" + i));
            wanted.add("m" + i);
        }
        Stage.same("the first member", seen.get(0), wanted);
        Stage.same("the second member", seen.get(1), wanted);
    }

    /** Messages of the first four delay levels: each once, and none before its time. */
    static void levels(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        ConcurrentHashMap<String, Long> begun = new ConcurrentHashMap<>();
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        ConcurrentLinkedQueue<String> early = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt each : messages) {
                long took = System.currentTimeMillis() - begun.get(Stage.text(each));
                if (took < LEVELS_S[Integer.parseInt(Stage.text(each)) - 1] * 1000L) {
                    early.add(Stage.text(each) + " after " + took + " ms");
                }
                seen.add(Stage.text(each));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        List<String> wanted = new ArrayList<>();
        for (int level = LEVELS_S.length; level >= 1; level--) {
            Message late = stage.message(String.valueOf(level));
            late.setDelayTimeLevel(level);
            wanted.add(Stage.text(late));
            begun.put(Stage.text(late), System.currentTimeMillis());
            producer.send(late);
        }
        Stage.same("delayed messages", seen, wanted);
        Stage.check(early.isEmpty(), "too early: " + early);
    }

    /** A consumer selects by properties, and is told at its start when the broker cannot read its selector. */
    static void sql(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        DefaultMQPushConsumer refused = stage.from(new DefaultMQPushConsumer(stage.group + "-refused"));
        refused.subscribe(stage.topic, MessageSelector.bySql("weight BETWEEN 10 AND 5"));
        refused.registerMessageListener(Stage.taking(new ConcurrentLinkedQueue<>()));
        try {
            refused.start();
            throw new AssertionError("a selector that nobody can read was taken");
        } catch (MQClientException expected) {
            Stage.check(expected.getResponseCode() == 23, expected.toString());
        }
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.from(new DefaultMQPushConsumer(stage.group));
        consumer.subscribe(stage.topic, MessageSelector.bySql("weight BETWEEN 5 AND 10 AND color IN ('red', 'green')"));
        consumer.registerMessageListener(Stage.taking(seen));
        consumer.start();
        List<String> wanted = new ArrayList<>();
        for (int i = 0; i < 60; i++) {
            Message message = stage.message("m" + i);
            message.putUserProperty("color", List.of("red", "green", "blue").get(i % 3));
            message.putUserProperty("weight", String.valueOf(i % 15));
            producer.send(message);
            if (i % 3 != 2 && i % 15 >= 5 && i % 15 <= 10) {
                wanted.add("m" + i);
            }
        }
        Stage.same("selected messages", seen, wanted);
    }
}
