import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Transactions, and recall of timers. */
final class Transacted {
    private Transacted() {
    }

    private static void settle(Queue<String> seen, Set<String> wanted) throws Exception {
        Stage.until("all that is wanted: " + wanted, 90, () -> seen.size() >= wanted.size());
        Thread.sleep(2000);
        Stage.same(seen, wanted);
    }

    /** Decided at once, or when the broker asks. */
    static void transaction(Stage stage) throws Exception {
        Set<String> checked = ConcurrentHashMap.newKeySet();
        Queue<String> seen = new ConcurrentLinkedQueue<>();
        TransactionMQProducer producer = new TransactionMQProducer("pg-" + stage.topic);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return (LocalTransactionState) argument;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                String body = Stage.text(message);
                Stage.check(message.getTopic().equals(stage.topic) && message.getTransactionId() != null, message.toString());
                checked.add(body);
                int number = Integer.parseInt(body.substring(7));
                return number % 2 == 0 ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        stage.started(producer).createTopic("TBW102", stage.topic, 4, Map.of());
        stage.into(seen, stage.group, stage.topic);
        TreeSet<String> wanted = new TreeSet<>();
        for (int i = 0; i < 10; i++) {
            for (LocalTransactionState state : LocalTransactionState.values()) {
                String body = state.name().substring(0, 6) + "-" + i;
                SendResult result = producer.sendMessageInTransaction(stage.message(body), state);
                Stage.check(result.getSendStatus() == SendStatus.SEND_OK, result.toString());
                Stage.check(result.getTransactionId().equals(result.getMsgId()), result.toString());
                if (state == LocalTransactionState.COMMIT_MESSAGE || state == LocalTransactionState.UNKNOW && i % 2 == 0) {
                    wanted.add(body);
                }
            }
        }
        settle(seen, wanted);
        Stage.check(checked.size() == 10, "asked about " + checked);
    }

    /** With broker settings of its own: what nobody decides over is asked about twice, and then put away. */
    static void undecided(Stage stage) throws Exception {
        DefaultMQAdminExt admin = stage.admin();
        Properties settings = new Properties();
        settings.setProperty("transactionTimeOut", "1000");
        settings.setProperty("transactionCheckInterval", "1000");
        settings.setProperty("transactionCheckMax", "2");
        admin.updateBrokerConfig(stage.broker, settings);
        Stage.check("1000".equals(admin.getBrokerConfig(stage.broker).getProperty("transactionTimeOut")), "the setting is not told");
        Queue<String> asked = new ConcurrentLinkedQueue<>();
        Queue<String> seen = new ConcurrentLinkedQueue<>();
        Queue<String> away = new ConcurrentLinkedQueue<>();
        TransactionMQProducer producer = new TransactionMQProducer("pg-" + stage.topic);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.UNKNOW;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                asked.add(Stage.text(message));
                return LocalTransactionState.UNKNOW;
            }
        });
        stage.started(producer).createTopic("TBW102", stage.topic, 4, Map.of());
        stage.into(seen, stage.group, stage.topic);
        stage.into(away, stage.group + "-away", "TRANS_CHECK_MAX_TIME_TOPIC");
        // A producer is asked once its heartbeat has come; by itself the client sends one within half a minute of its first route.
        producer.getDefaultMQProducerImpl().getMqClientFactory().updateTopicRouteInfoFromNameServer(stage.topic);
        producer.getDefaultMQProducerImpl().getMqClientFactory().sendHeartbeatToAllBrokerWithLock();
        for (String body : List.of("one", "two", "three")) {
            producer.sendMessageInTransaction(stage.message(body), null);
        }
        Stage.until("all are put away", 40, () -> away.size() >= 3);
        Stage.same(away, List.of("one", "two", "three"));
        // The client answers questions in threads of its own, on a busy machine after the broker has given up.
        Stage.until("all were asked about twice", 20, () -> asked.size() >= 6);
        Stage.check(asked.size() == 6 && seen.isEmpty(), "asked about " + asked + ", seen " + seen);
    }

    /** Every other timer is recalled; the broker refuses an unknown handle. */
    static void recall(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        Queue<String> seen = new ConcurrentLinkedQueue<>();
        stage.into(seen, stage.group, stage.topic);
        TreeSet<String> wanted = new TreeSet<>();
        for (int i = 0; i < 10; i++) {
            Message message = stage.message("timer" + i);
            message.setDelayTimeMs(8000);
            SendResult result = producer.send(message);
            if (i % 2 == 0) {
                String recalled = producer.recallMessage(stage.topic, result.getRecallHandle());
                Stage.check(recalled.equals(result.getMsgId()), recalled + " for " + result);
            } else {
                wanted.add("timer" + i);
            }
        }
        settle(seen, wanted);
        try {
            producer.recallMessage(stage.topic, "bm90IGEgaGFuZGxl");
        } catch (MQBrokerException | IllegalArgumentException | MQClientException expected) {
            return;
        }
        throw new AssertionError("what is no handle was recalled");
    }
}
