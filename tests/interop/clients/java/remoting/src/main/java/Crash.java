import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/** The node is killed and started again in the middle of these. */
final class Crash {
    private static final int BEFORE = 200;
    private static final int AFTER = 200;
    private static final int KIND = 5;

    private Crash() {
    }

    /** A producer and a push consumer that work all the time: all that was acknowledged is consumed. */
    static void stream(Stage stage) throws Exception {
        flow(stage, false);
    }

    /** The same, popping. */
    static void streamPop(Stage stage) throws Exception {
        flow(stage, true);
    }

    private static void flow(Stage stage, boolean pops) throws Exception {
        DefaultMQProducer producer = stage.producer();
        producer.setSendMsgTimeout(3_000);
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        if (pops) {
            stage.popped(stage.group);
            consumer.setClientRebalance(false);
        }
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
                failed++;
                Stage.check(failed < 10_000, "the producer does not come back: " + down);
                Thread.sleep(20);
            }
            if (acknowledged.size() >= BEFORE) {
                stage.readyToBeKilled();
                Thread.sleep(back ? 0 : 5);
            }
        }
        Stage.until("all that was acknowledged is consumed", 90, () -> new HashSet<>(seen).containsAll(acknowledged));
        int again = seen.size() - new HashSet<>(seen).size();
        System.out.println((pops ? "pop" : "push") + ": " + acknowledged.size() + " acknowledged, " + failed + " sends failed, "
            + again + " messages came again");
    }

    /** Timers of before the kill come after it, never early; those that were recalled do not. */
    static void timers(Stage stage) throws Exception {
        Set<String> unsure = new HashSet<>();
        Map<String, Long> due = Timers.sent(stage, stage.producer(), 8, 12_000, unsure);
        stage.killed();
        Timers.wanted("timers over a kill", due, unsure, Timers.arrivals(stage));
    }

    private static final class Judge implements TransactionListener {
        private final Stage stage;
        private final CountDownLatch inside = new CountDownLatch(2);
        private final Set<String> asked = ConcurrentHashMap.newKeySet();

        Judge(Stage stage) {
            this.stage = stage;
        }

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            if (argument.equals("late")) {
                inside.countDown();
                try {
                    stage.awaitBack();
                } catch (InterruptedException error) {
                    throw new IllegalStateException(error);
                }
            }
            return verdict(new String(message.getBody()));
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            String body = Stage.text(message);
            if (!stage.isBack()) {
                return LocalTransactionState.UNKNOW;
            }
            asked.add(body);
            return body.startsWith("open") ? even(body) : verdict(body);
        }

        private static LocalTransactionState verdict(String body) {
            return body.startsWith("commit") ? LocalTransactionState.COMMIT_MESSAGE
                : body.startsWith("rollback") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
        }

        private static LocalTransactionState even(String body) {
            return (body.charAt(body.length() - 1) - '0') % 2 == 0
                ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
        }
    }

    private static TransactionMQProducer transactions(Stage stage, Judge judge) throws Exception {
        stage.producer();
        TransactionMQProducer producer = new TransactionMQProducer("tg-" + stage.topic);
        producer.setTransactionListener(judge);
        return (TransactionMQProducer) stage.started(producer);
    }

    /** Killed between end and consumption: committed is delivered once, rolled back never, open is asked about afterwards. */
    static void transactions(Stage stage) throws Exception {
        Judge judge = new Judge(stage);
        TransactionMQProducer producer = transactions(stage, judge);
        Set<String> wanted = new HashSet<>();
        for (int number = 0; number < KIND; number++) {
            for (String kind : new String[] {"commit", "rollback", "open"}) {
                Message message = stage.message(kind + number);
                MessageAccessor.putProperty(message, "CHECK_IMMUNITY_TIME_IN_SECONDS", "4");
                producer.sendMessageInTransaction(message, "now");
                if (kind.equals("commit") || kind.equals("open") && number % 2 == 0) {
                    wanted.add(kind + number);
                }
            }
        }
        Thread.sleep(1_000);
        stage.killed();
        settle(stage, judge, wanted, KIND);
        for (int number = 0; number < KIND; number++) {
            Stage.check(judge.asked.contains("open" + number), "not asked about open" + number + ": " + judge.asked);
        }
    }

    /** Killed between half message and end: the decisions of before count after it. */
    static void between(Stage stage) throws Exception {
        Judge judge = new Judge(stage);
        TransactionMQProducer producer = transactions(stage, judge);
        Thread[] threads = new Thread[2];
        for (int at = 0; at < 2; at++) {
            String body = at == 0 ? "commit-late" : "rollback-late";
            threads[at] = new Thread(() -> {
                try {
                    producer.sendMessageInTransaction(stage.message(body), "late");
                } catch (Exception error) {
                    error.printStackTrace();
                }
            });
            threads[at].start();
        }
        judge.inside.await();
        stage.killed();
        for (Thread each : threads) {
            each.join();
        }
        settle(stage, judge, Set.of("commit-late"), 0);
    }

    private static void settle(Stage stage, Judge judge, Set<String> wanted, int asked) throws Exception {
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        stage.into(seen, stage.group, stage.topic);
        Stage.until("all that commits; asked about " + judge.asked, 90,
            () -> seen.size() >= wanted.size() && judge.asked.size() >= asked);
        Thread.sleep(3_000);
        Stage.same(seen, wanted);
    }
}
