import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.exception.RemotingException;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What listeners refuse: attempts, and where it ends. */
final class Retries {
    private static final int RETRIES = 2;
    private static final int POP_RETRIES = 1;

    private Retries() {
    }

    private static MessageExt buried(Stage stage, Queue dead, String body) throws Exception {
        Stage.until("the dead letter " + body, 90, () -> !dead.isEmpty());
        Thread.sleep(500);
        Stage.check(dead.size() == 1, dead.size() + " dead letters");
        MessageExt found = dead.peek();
        Stage.check(Stage.text(found).equals(body) && "TagA".equals(found.getTags()), found.toString());
        Stage.check(("key-" + body).equals(found.getKeys()) && "kept".equals(found.getUserProperty("note")), found.toString());
        return found;
    }

    /** The letters in the group's dead-letter topic, read by another group. */
    private static Queue letters(Stage stage) throws Exception {
        Queue letters = new Queue();
        DefaultMQAdminExt admin = stage.admin();
        Stage.until("a dead-letter topic", 60, () -> {
            try {
                return admin.examineTopicRouteInfo("%DLQ%" + stage.group) != null;
            } catch (MQClientException absent) {
                return false;
            } catch (RemotingException | InterruptedException error) {
                throw new IllegalStateException(error);
            }
        });
        DefaultMQPushConsumer consumer = stage.consumer("undertaker-" + stage.group, "%DLQ%" + stage.group);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            letters.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return letters;
    }

    private static final class Queue extends ConcurrentLinkedQueue<MessageExt> {
        private static final long serialVersionUID = 1L;
    }

    private static SendResult poison(Stage stage, DefaultMQProducer producer) throws Exception {
        Message message = stage.message("poison");
        message.putUserProperty("note", "kept");
        return producer.send(message, (queues, each, choice) -> queues.get(0), null);
    }

    private static MessageListenerConcurrently refusing(int level, ConcurrentLinkedQueue<String> attempts,
        ConcurrentLinkedQueue<String> seen) {
        return (messages, context) -> {
            MessageExt each = messages.get(0);
            if (Stage.text(each).equals("poison")) {
                attempts.add(String.valueOf(each.getReconsumeTimes()));
                context.setDelayLevelWhenNextConsume(level);
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            seen.add(Stage.text(each));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    }

    private static void attempted(ConcurrentLinkedQueue<String> attempts, int retries) {
        List<String> wanted = new ArrayList<>();
        for (int attempt = 0; attempt <= retries; attempt++) {
            wanted.add(String.valueOf(attempt));
        }
        Stage.check(new ArrayList<>(attempts).equals(wanted), "attempts " + attempts + ", wanted " + wanted);
    }

    private static void limited(Stage stage) throws Exception {
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(stage.group);
        config.setRetryMaxTimes(POP_RETRIES);
        stage.admin().createAndUpdateSubscriptionGroupConfig(stage.broker, config);
    }

    /** Refused until the member's limit: in the dead-letter topic, which says where it is from. */
    static void dead(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        ConcurrentLinkedQueue<String> attempts = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.setMaxReconsumeTimes(RETRIES);
        consumer.registerMessageListener(refusing(1, attempts, new ConcurrentLinkedQueue<>()));
        consumer.start();
        SendResult sent = poison(stage, producer);
        Stage.until("the last attempt", 60, () -> attempts.size() > RETRIES);
        MessageExt letter = buried(stage, letters(stage), "poison");
        attempted(attempts, RETRIES);
        Stage.check(stage.topic.equals(letter.getProperty("DLQ_ORIGIN_TOPIC")), letter.toString());
        Stage.check(sent.getMsgId().equals(letter.getMsgId()), letter + " is not " + sent);
        Stage.check(letter.getProperty("DLQ_ORIGIN_MESSAGE_ID") != null, "no origin: " + letter);
    }

    /** An orderly member suspends its queue until its limit; then the followers come, and the message is dead. */
    static void deadOrderly(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        ConcurrentLinkedQueue<String> attempts = new ConcurrentLinkedQueue<>();
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.setMaxReconsumeTimes(RETRIES);
        consumer.setSuspendCurrentQueueTimeMillis(300);
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt each : messages) {
                if (Stage.text(each).equals("poison")) {
                    attempts.add(String.valueOf(each.getReconsumeTimes()));
                    return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                }
                Stage.check(attempts.size() > RETRIES, "a follower came before its turn");
                seen.add(Stage.text(each));
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        poison(stage, producer);
        for (int number = 0; number < 5; number++) {
            producer.send(stage.message("m" + number), (queues, each, choice) -> queues.get(0), null);
        }
        consumer.start();
        Stage.until("the followers", 60, () -> seen.size() >= 5);
        Stage.check(List.copyOf(seen).equals(List.of("m0", "m1", "m2", "m3", "m4")), seen.toString());
        // The client itself sends the letter, and again when the answer is late: at most three times, with the same id.
        Queue letters = letters(stage);
        Stage.until("the dead letter", 90, () -> !letters.isEmpty());
        Thread.sleep(500);
        Stage.check(letters.size() <= 3, letters.size() + " dead letters");
        Stage.check(letters.stream().map(MessageExt::getMsgId).distinct().count() == 1, letters.toString());
        Stage.check(letters.stream().allMatch(each -> Stage.text(each).equals("poison")), letters.toString());
        attempted(attempts, RETRIES);
    }

    /** POP: the group's limit counts, kept by the server. The SDK waits 10 s, then 30 s. */
    static void deadPop(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        limited(stage);
        stage.popped(stage.group);
        ConcurrentLinkedQueue<String> attempts = new ConcurrentLinkedQueue<>();
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.setClientRebalance(false);
        consumer.registerMessageListener(refusing(0, attempts, seen));
        consumer.start();
        poison(stage, producer);
        producer.send(stage.message("good"));
        Stage.until("the last attempt", 90, () -> attempts.size() > POP_RETRIES);
        buried(stage, letters(stage), "poison");
        attempted(attempts, POP_RETRIES);
        Stage.check(List.copyOf(seen).equals(List.of("good")), seen.toString());
    }

    /** POP by two orderly members: each queue in order. */
    static void popOrderly(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(stage.group);
        config.setConsumeMessageOrderly(true);
        stage.admin().createAndUpdateSubscriptionGroupConfig(stage.broker, config);
        stage.popped(stage.group);
        Map<String, List<Integer>> lanes = new ConcurrentHashMap<>();
        ConcurrentLinkedQueue<String> all = new ConcurrentLinkedQueue<>();
        for (int member = 0; member < 2; member++) {
            DefaultMQPushConsumer consumer = stage.consumer();
            consumer.setClientRebalance(false);
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                for (MessageExt each : messages) {
                    List<Integer> lane = lanes.computeIfAbsent(each.getKeys(), key -> new ArrayList<>());
                    synchronized (lane) {
                        lane.add(Integer.valueOf(Stage.text(each)));
                    }
                    all.add(Stage.text(each));
                }
                return ConsumeOrderlyStatus.SUCCESS;
            });
            consumer.start();
        }
        List<Integer> wanted = new ArrayList<>();
        for (int number = 0; number < 20; number++) {
            wanted.add(number);
            for (int lane = 0; lane < 4; lane++) {
                int place = lane;
                Message message = new Message(stage.topic, "TagA", "lane" + lane, String.valueOf(number).getBytes());
                producer.send(message, (queues, each, choice) -> queues.get(place), null);
            }
        }
        Stage.until("all lanes", 90, () -> all.size() >= 80);
        lanes.forEach((name, lane) -> Stage.check(lane.equals(wanted), name + ": " + lane));
    }
}
