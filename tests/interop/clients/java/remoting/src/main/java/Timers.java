import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.protocol.ResponseCode;

/** Messages for later: never early; how late they are is printed, and judged nowhere. */
final class Timers {
    private static final long[] LEVELS_S = {1, 5, 10, 30};
    private static final int LEVELS = 18;
    private static final int ATTEMPTS = 10;
    private static final Set<Integer> UNSURE = Set.of(ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT);

    private Timers() {
    }

    /** When each body came, in epoch milliseconds; -1 for what came twice. */
    static Map<String, Long> arrivals(Stage stage) throws Exception {
        Map<String, Long> came = new ConcurrentHashMap<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long now = System.currentTimeMillis();
            messages.forEach(each -> came.merge(Stage.text(each), now, (old, again) -> -1L));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return came;
    }

    /**
     * All that is due came, each once and not before its time, and nothing else but what its sender was not sure of: on a busy machine an
     * answer may be FLUSH_DISK_TIMEOUT or FLUSH_SLAVE_TIMEOUT, by which the message is stored, and may be lost with a disk or a node.
     */
    static void wanted(String name, Map<String, Long> due, Set<String> unsure, Map<String, Long> came) throws Exception {
        Stage.until("all timers that were not recalled", 60, () -> came.keySet().containsAll(due.keySet()));
        Thread.sleep(3_000);
        judge(name, due, came);
        Set<String> more = new HashSet<>(came.keySet());
        more.removeAll(due.keySet());
        more.removeAll(unsure);
        Stage.check(more.isEmpty(), "recalled and yet there: " + more);
    }

    /** Each of `due` came once and not before its time. */
    static void judge(String name, Map<String, Long> due, Map<String, Long> came) {
        long[] late = new long[due.size()];
        int at = 0;
        for (Map.Entry<String, Long> each : due.entrySet()) {
            Long when = came.get(each.getKey());
            Stage.check(when != null && when != -1L, each.getKey() + " came " + (when == null ? "never" : "twice"));
            late[at] = when - each.getValue();
            Stage.check(late[at++] >= 0, each.getKey() + " came " + -late[at - 1] + " ms early");
        }
        Arrays.sort(late);
        System.out.println("lateness of " + name + " in ms: median " + late[late.length / 2] + ", most " + late[late.length - 1]);
    }

    /** One message on each of the 18 levels: those of half a minute come in their time, those of minutes do not come. */
    static void levels(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        Map<String, Long> came = arrivals(stage);
        Map<String, Long> due = new ConcurrentHashMap<>();
        for (int level = 1; level <= LEVELS; level++) {
            Message message = stage.message("level" + level);
            message.setDelayTimeLevel(level);
            long before = System.currentTimeMillis();
            producer.send(message);
            if (level <= LEVELS_S.length) {
                due.put("level" + level, before + LEVELS_S[level - 1] * 1_000);
            }
        }
        Stage.until("the first levels", 60, () -> came.size() >= LEVELS_S.length);
        Thread.sleep(500);
        judge("levels", due, came);
        Stage.check(came.size() == LEVELS_S.length, "too early: " + came.keySet());
    }

    /** Timers by instant and by delay in both units; half of them are taken back; too far away is 13. */
    static void timers(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        Map<String, Long> came = arrivals(stage);
        Set<String> unsure = new HashSet<>();
        Map<String, Long> due = sent(stage, producer, 8, 4_000, unsure);
        wanted("timers", due, unsure, came);
        Message far = stage.message("far");
        far.setDelayTimeSec(367L * 86_400);
        try {
            producer.send(far);
            throw new AssertionError("a timer beyond 366 days was taken");
        } catch (MQBrokerException error) {
            Stage.check(error.getResponseCode() == 13, error.toString());
        }
    }

    /**
     * Timers of each kind, `count` that stay and as many that are recalled; body -> epoch milliseconds for what stays. A send whose
     * answer promises less than it should is repeated, as users do; its first message is added to `unsure`.
     */
    static Map<String, Long> sent(Stage stage, DefaultMQProducer producer, int count, long delayMs, Set<String> unsure)
            throws Exception {
        Map<String, Long> due = new ConcurrentHashMap<>();
        Set<String> handles = new HashSet<>();
        for (int number = 0; number < 2 * count; number++) {
            String body = "timer" + number;
            long at = 0;
            SendResult result = null;
            for (int attempt = 1; result == null; attempt++) {
                Stage.check(attempt <= ATTEMPTS, "no timer is stored as promised: " + unsure);
                Message message = stage.message(body);
                long now = System.currentTimeMillis();
                at = now + delayMs + 100L * number;
                switch (number % 3) {
                    case 0: message.setDeliverTimeMs(at); break;
                    case 1: message.setDelayTimeMs(at - now); break;
                    default:
                        message.setDelayTimeSec(delayMs / 1_000);
                        at = now + delayMs / 1_000 * 1_000;
                }
                SendResult answer = producer.send(message);
                if (answer.getSendStatus() == SendStatus.SEND_OK) {
                    result = answer;
                } else {
                    System.out.println(body + ": " + answer.getSendStatus());
                    unsure.add(body);
                    body = "timer" + number + " again " + attempt;
                }
            }
            Stage.check(handles.add(result.getRecallHandle()), "a handle twice: " + result);
            if (number % 2 == 0) {
                due.put(body, at);
            } else if (!recalled(stage, producer, result)) {
                unsure.add(body);
            }
        }
        return due;
    }

    /** False: the broker is not sure yet that it is recalled. */
    private static boolean recalled(Stage stage, DefaultMQProducer producer, SendResult result) throws Exception {
        try {
            Stage.check(producer.recallMessage(stage.topic, result.getRecallHandle()).equals(result.getMsgId()), "recall");
            return true;
        } catch (MQBrokerException error) {
            Stage.check(UNSURE.contains(error.getResponseCode()), error.toString());
            return false;
        }
    }
}
