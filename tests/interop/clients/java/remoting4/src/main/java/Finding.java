import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** What the 4.x client finds again: messages by what is known of them, those before a reset, those of its namespace. */
final class Finding {
    private Finding() {
    }

    /** By key with a time range, by unique id, by offset id; and nothing where there is nothing. */
    static void query(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        long begun = System.currentTimeMillis();
        SendResult sent = null;
        for (int i = 0; i < 4; i++) {
            sent = producer.send(new Message(stage.topic, "TagA", "same " + i, ("m" + i).getBytes()));
        }
        Stage.check(Stage.text(producer.viewMessage(sent.getOffsetMsgId())).equals("m3"), "by its offset id");
        String id = sent.getMsgId();
        Stage.check(Stage.text(producer.viewMessage(stage.topic, id)).equals("m3"), "by its unique id");
        long end = begun + 120_000;
        Stage.check(bodies(producer, stage.topic, "same", begun - 1000, end).equals(List.of("m0", "m1", "m2", "m3")), "by a key");
        Stage.check(bodies(producer, stage.topic, "2", begun - 1000, end).equals(List.of("m2")), "by another key");
        Stage.check(bodies(producer, stage.topic, "same", begun - 60_000, begun - 30_000).isEmpty(), "before it was sent");
        Stage.check(bodies(producer, stage.topic, "absent", begun - 1000, end).isEmpty(), "by a key that nobody has");
    }

    private static List<String> bodies(DefaultMQProducer producer, String topic, String key, long begin, long end) throws Exception {
        List<String> found = new ArrayList<>();
        try {
            producer.queryMessage(topic, key, 32, begin, end).getMessageList().forEach(each -> found.add(Stage.text(each)));
        } catch (MQClientException none) {
            return List.of();
        }
        found.sort(null);
        return found;
    }

    /** A reset by time, asked of the broker while a member is there: what came since is consumed again, once. */
    static void reset(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        ConcurrentHashMap<String, AtomicInteger> seen = new ConcurrentHashMap<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt each : messages) {
                seen.computeIfAbsent(Stage.text(each), body -> new AtomicInteger()).incrementAndGet();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        long middle = 0;
        Map<String, Integer> wanted = new TreeMap<>();
        for (String round : List.of("before", "since")) {
            for (int i = 0; i < 10; i++) {
                producer.send(stage.message(round + i));
                wanted.put(round + i, round.equals("since") ? 2 : 1);
            }
            Stage.until("what was sent " + round, 60, () -> seen.containsKey(round + "9") && seen.size() % 10 == 0);
            Thread.sleep(2);
            middle = middle == 0 ? System.currentTimeMillis() : middle;
        }
        MQClientInstance client = producer.getDefaultMQProducerImpl().getmQClientFactory();
        String broker = client.findBrokerAddressInPublish(producer.fetchPublishMessageQueues(stage.topic).get(0).getBrokerName());
        client.getMQClientAPIImpl().invokeBrokerToResetOffset(broker, stage.topic, stage.group, middle, true, 10_000);
        Stage.until("what came since, again", 90, () -> counts(seen).values().stream().mapToInt(each -> each).sum() >= 30);
        Thread.sleep(500);
        Stage.check(counts(seen).equals(wanted), "seen " + counts(seen));
    }

    private static Map<String, Integer> counts(Map<String, AtomicInteger> seen) {
        Map<String, Integer> counts = new TreeMap<>();
        seen.forEach((body, times) -> counts.put(body, times.get()));
        return counts;
    }

    /** The same names in two namespaces and in none; a message that is refused comes again where it was. */
    static void spaces(Stage stage) throws Exception {
        Map<String, ConcurrentLinkedQueue<String>> seen = new ConcurrentHashMap<>();
        for (String space : List.of("", "shop", "yard")) {
            DefaultMQProducer producer = new DefaultMQProducer("pg-" + stage.topic);
            DefaultMQPushConsumer consumer = stage.from(new DefaultMQPushConsumer(stage.group));
            if (!space.isEmpty()) {
                producer.setNamespace(space);
                consumer.setNamespace(space);
            }
            stage.prepared(producer);
            ConcurrentLinkedQueue<String> mine = new ConcurrentLinkedQueue<>();
            seen.put(space, mine);
            consumer.subscribe(stage.topic, "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                MessageExt each = messages.get(0);
                mine.add(each.getTopic() + " " + Stage.text(each) + " " + each.getReconsumeTimes());
                context.setDelayLevelWhenNextConsume(1);
                return Stage.text(each).endsWith("0") && each.getReconsumeTimes() == 0 ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                    : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            for (int i = 0; i < 3; i++) {
                producer.send(stage.message(space + i));
            }
        }
        for (Map.Entry<String, ConcurrentLinkedQueue<String>> each : seen.entrySet()) {
            String first = stage.topic + " " + each.getKey();
            Stage.same("namespace '" + each.getKey() + "'", each.getValue(),
                List.of(first + "0 0", first + "0 1", first + "1 0", first + "2 0"));
        }
    }
}
