import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Where it ends for the 4.x client: messages that nobody can consume, and those that are too large. */
final class Failing {
    private static final int RETRIES = 2;
    private static final int LARGEST = 4 * 1024 * 1024;
    private static final int MESSAGE_ILLEGAL = 13;

    private Failing() {
    }

    /** Refused until the member's limit: then it is a dead letter, which says where it is from. */
    static void dead(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        ConcurrentLinkedQueue<String> attempts = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.setMaxReconsumeTimes(RETRIES);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            attempts.add(String.valueOf(messages.get(0).getReconsumeTimes()));
            context.setDelayLevelWhenNextConsume(1);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        String id = producer.send(stage.message("poison")).getMsgId();
        Stage.until("the last attempt", 60, () -> attempts.size() > RETRIES);
        buried(stage, producer, id);
        Stage.check(List.copyOf(attempts).equals(List.of("0", "1", "2")), "attempts " + attempts);
    }

    /** An orderly member suspends its queue until its limit; then the followers come. */
    static void deadOrderly(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.setMaxReconsumeTimes(RETRIES);
        consumer.setSuspendCurrentQueueTimeMillis(200);
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            MessageExt each = messages.get(0);
            seen.add(Stage.text(each) + " " + each.getReconsumeTimes());
            return Stage.text(each).equals("poison") ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
                : ConsumeOrderlyStatus.SUCCESS;
        });
        String id = "";
        for (String body : List.of("poison", "m0", "m1")) {
            String sent = producer.send(stage.message(body), (queues, each, choice) -> queues.get(0), null).getMsgId();
            id = body.equals("poison") ? sent : id;
        }
        consumer.start();
        Stage.until("the followers", 60, () -> seen.contains("m1 0"));
        Stage.check(List.copyOf(seen).equals(List.of("poison 0", "poison 1", "poison 2", "m0 0", "m1 0")), seen.toString());
        buried(stage, producer, id);
    }

    private static void buried(Stage stage, DefaultMQProducer producer, String id) throws Exception {
        String letters = "%DLQ%" + stage.group;
        Stage.until("a dead-letter topic", 60, () -> routed(producer, letters));
        ConcurrentLinkedQueue<String> found = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer undertaker = stage.from(new DefaultMQPushConsumer("undertaker-" + stage.group));
        undertaker.subscribe(letters, "*");
        undertaker.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt each : messages) {
                found.add(Stage.text(each) + " " + each.getProperty("DLQ_ORIGIN_TOPIC") + " " + each.getMsgId());
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        undertaker.start();
        Stage.same("dead letters", found, List.of("poison " + stage.topic + " " + id));
    }

    private static boolean routed(DefaultMQProducer producer, String topic) {
        try {
            return !producer.fetchPublishMessageQueues(topic).isEmpty();
        } catch (MQClientException absent) {
            return false;
        }
    }

    /** 4 MiB pass, and a byte more is refused by the broker with its code. */
    static void limit(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        producer.setMaxMessageSize(2 * LARGEST);
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        Stage.check(producer.send(new Message(stage.topic, new byte[LARGEST])).getSendStatus() == SendStatus.SEND_OK, "4 MiB");
        try {
            producer.send(new Message(stage.topic, new byte[LARGEST + 1]));
            throw new AssertionError("a byte too much was taken");
        } catch (MQBrokerException refusal) {
            Stage.check(refusal.getResponseCode() == MESSAGE_ILLEGAL, refusal.toString());
        }
    }
}
