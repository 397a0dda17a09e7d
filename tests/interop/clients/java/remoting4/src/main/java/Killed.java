import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** The node is killed and started again under these. */
final class Killed {
    private static final int BEFORE = 200;
    private static final int AFTER = 200;
    private static final int KIND = 4;

    private Killed() {
    }

    /** Sends and consumes all the time: what was acknowledged is consumed. */
    static void stream(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        producer.setSendMsgTimeout(3_000);
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.registerMessageListener(Stage.taking(seen));
        consumer.start();
        Set<String> acknowledged = new HashSet<>();
        int failed = 0;
        int since = 0;
        for (int number = 0; since < AFTER; number++) {
            boolean back = stage.isBack();
            try {
                if (producer.send(stage.message("m" + number)).getSendStatus() == SendStatus.SEND_OK) {
                    acknowledged.add("m" + number);
                    since += back ? 1 : 0;
                }
            } catch (Exception down) {
                Stage.check(++failed < 10_000, "the producer does not come back: " + down);
                Thread.sleep(20);
            }
            if (acknowledged.size() >= BEFORE) {
                stage.readyToBeKilled();
            }
            Thread.sleep(back ? 0 : 5);
        }
        Stage.until("all that was acknowledged is consumed", 120, () -> new HashSet<>(seen).containsAll(acknowledged));
        System.out.println("java4: " + acknowledged.size() + " acknowledged, " + failed + " sends failed, " + seen.size() + " deliveries");
    }

    /** Decided before the kill, or asked about after it; every other one of those is then committed. */
    static void transactions(Stage stage) throws Exception {
        Set<String> asked = ConcurrentHashMap.newKeySet();
        TransactionMQProducer producer = new TransactionMQProducer("pg-" + stage.topic);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return (LocalTransactionState) argument;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                if (!stage.isBack()) {
                    return LocalTransactionState.UNKNOW;
                }
                asked.add(Stage.text(message));
                return Stage.text(message).endsWith("0") ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        stage.prepared(producer);
        Set<String> wanted = new TreeSet<>();
        Set<String> open = new TreeSet<>();
        for (int number = 0; number < KIND; number++) {
            for (LocalTransactionState state : List.of(LocalTransactionState.values())) {
                String body = state + " " + number + " " + number % 2;
                producer.sendMessageInTransaction(stage.message(body), state);
                if (state == LocalTransactionState.UNKNOW) {
                    open.add(body);
                }
                if (state == LocalTransactionState.COMMIT_MESSAGE || state == LocalTransactionState.UNKNOW && number % 2 == 0) {
                    wanted.add(body);
                }
            }
        }
        Thread.sleep(1_000);
        stage.killed();
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.registerMessageListener(Stage.taking(seen));
        consumer.start();
        Stage.same("transactions over a kill", seen, wanted);
        Stage.until("all that was left open is asked about", 90, () -> asked.equals(open));
    }
}
