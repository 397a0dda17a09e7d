import java.nio.charset.StandardCharsets;
import java.util.Map;
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

    private static void recall(String nameserver, String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("pg_" + topic);
        producer.setNamesrvAddr(nameserver);
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
