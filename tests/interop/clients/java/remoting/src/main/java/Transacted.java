import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Transactions, and recall of timers: `Transacted transaction|recall NAMESERVER TOPIC`. */
public final class Transacted {
    private static final ConcurrentLinkedQueue<String> SEEN = new ConcurrentLinkedQueue<>();
    private static final Set<String> CHECKED = ConcurrentHashMap.newKeySet();

    private Transacted() {
    }

    public static void main(String[] args) {
        try {
            if (args[0].equals("transaction")) {
                transaction(args[1], args[2]);
            } else {
                recall(args[1], args[2]);
            }
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.out.println("OK " + args[0]);
        System.exit(0);
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static void consume(String nameserver, String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("cg_" + topic);
        consumer.setNamesrvAddr(nameserver);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(each -> SEEN.add(new String(each.getBody(), StandardCharsets.UTF_8)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    private static void settle(Set<String> wanted, int seconds) throws Exception {
        long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (SEEN.size() < wanted.size()) {
            check(System.nanoTime() < limit, "seen " + SEEN + ", wanted " + wanted + ", asked about " + CHECKED);
            Thread.sleep(50);
        }
        Thread.sleep(2000);
        check(SEEN.size() == wanted.size() && new TreeSet<>(SEEN).equals(wanted), "seen " + SEEN + ", wanted " + wanted);
    }

    private static void transaction(String nameserver, String topic) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("pg_" + topic);
        producer.setNamesrvAddr(nameserver);
        producer.setSendMsgTimeout(15_000);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return (LocalTransactionState) argument;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                check(message.getTopic().equals(topic) && message.getTransactionId() != null, message.toString());
                CHECKED.add(body);
                int number = Integer.parseInt(body.substring(7));
                return number % 2 == 0 ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        producer.start();
        producer.createTopic("TBW102", topic, 4, Map.of());
        consume(nameserver, topic);
        TreeSet<String> wanted = new TreeSet<>();
        for (int i = 0; i < 10; i++) {
            for (LocalTransactionState state : LocalTransactionState.values()) {
                String body = state.name().substring(0, 6) + "-" + i;
                Message message = new Message(topic, "TagA", "key" + i, body.getBytes(StandardCharsets.UTF_8));
                SendResult result = producer.sendMessageInTransaction(message, state);
                check(result.getSendStatus() == SendStatus.SEND_OK, result.toString());
                check(result.getTransactionId().equals(result.getMsgId()), result.toString());
                if (state == LocalTransactionState.COMMIT_MESSAGE || state == LocalTransactionState.UNKNOW && i % 2 == 0) {
                    wanted.add(body);
                }
            }
        }
        settle(wanted, 90);
        check(CHECKED.size() == 10, "asked about " + CHECKED);
        producer.shutdown();
    }

    /** With broker settings of its own: what nobody decides over is asked about twice, and then put away. */
    static void undecided(Stage stage) throws Exception {
        DefaultMQAdminExt admin = stage.admin();
        Properties settings = new Properties();
        settings.setProperty("transactionTimeOut", "1000");
        settings.setProperty("transactionCheckInterval", "1000");
        settings.setProperty("transactionCheckMax", "2");
        admin.updateBrokerConfig(stage.broker, settings);
        check("1000".equals(admin.getBrokerConfig(stage.broker).getProperty("transactionTimeOut")), "the setting is not told");
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
        check(asked.size() == 6 && seen.isEmpty(), "asked about " + asked + ", seen " + seen);
    }

    private static void recall(String nameserver, String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("pg_" + topic);
        producer.setNamesrvAddr(nameserver);
        producer.setSendMsgTimeout(15_000);
        producer.start();
        producer.createTopic("TBW102", topic, 4, Map.of());
        consume(nameserver, topic);
        TreeSet<String> wanted = new TreeSet<>();
        for (int i = 0; i < 10; i++) {
            Message message = new Message(topic, ("timer" + i).getBytes(StandardCharsets.UTF_8));
            message.setDelayTimeMs(8000);
            SendResult result = producer.send(message);
            if (i % 2 == 0) {
                String recalled = producer.recallMessage(topic, result.getRecallHandle());
                check(recalled.equals(result.getMsgId()), recalled + " for " + result);
            } else {
                wanted.add("timer" + i);
            }
        }
        settle(wanted, 40);
        try {
            producer.recallMessage(topic, "bm90IGEgaGFuZGxl");
            throw new AssertionError("what is no handle was recalled");
        } catch (MQBrokerException | IllegalArgumentException | org.apache.rocketmq.client.exception.MQClientException expected) {
            System.out.println("refused: " + expected.getMessage());
        }
        producer.shutdown();
    }
}
