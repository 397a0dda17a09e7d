import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Clients of the same topic and group names in a namespace: `Namespaced VERSION NAMESPACE NAMESERVER TOPIC COUNT`.
 *
 * VERSION is v1 (setNamespace), v2 (setNamespaceV2) or none. Sends COUNT messages and waits for as many; one of them fails once.
 * Prints every topic and body that it has seen.
 */
public final class Namespaced {
    private static String version;
    private static String namespace;
    private static String nameserver;
    private static final ConcurrentLinkedQueue<String> SEEN = new ConcurrentLinkedQueue<>();

    private Namespaced() {
    }

    public static void main(String[] args) {
        version = args[0];
        namespace = args[1];
        nameserver = args[2];
        try {
            run(args[3], Integer.parseInt(args[4]));
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        for (String each : SEEN) {
            System.out.println("seen\t" + each);
        }
        System.out.println("OK " + version);
        System.exit(0);
    }

    private static <T extends ClientConfig> T inside(T client, String instance) {
        client.setNamesrvAddr(nameserver);
        client.setInstanceName(instance);
        if (version.equals("v1")) {
            client.setNamespace(namespace);
        } else if (version.equals("v2")) {
            client.setNamespaceV2(namespace);
        }
        return client;
    }

    private static byte[] body(String text) {
        return (namespace + " " + text).getBytes(StandardCharsets.UTF_8);
    }

    private static String text(MessageExt message) {
        return message.getTopic() + "\t" + new String(message.getBody(), StandardCharsets.UTF_8);
    }

    private static void run(String topic, int count) throws Exception {
        DefaultMQProducer producer = inside(new DefaultMQProducer("pg"), "producer");
        producer.start();
        AtomicInteger failures = new AtomicInteger();
        DefaultMQPushConsumer consumer = inside(new DefaultMQPushConsumer("cg"), "consumer");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                if (text(message).endsWith(" 1") && failures.getAndIncrement() == 0) {
                    context.setDelayLevelWhenNextConsume(1);
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                SEEN.add(text(message));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.setConsumeMessageBatchMaxSize(1);
        DefaultMQPushConsumer orderly = inside(new DefaultMQPushConsumer("ordered"), "orderly");
        ConcurrentLinkedQueue<String> ordered = new ConcurrentLinkedQueue<>();
        orderly.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        orderly.subscribe(topic, "*");
        orderly.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            messages.forEach(each -> ordered.add(text(each)));
            return ConsumeOrderlyStatus.SUCCESS;
        });
        for (int i = 0; i < count - 1; i++) {
            producer.send(new Message(topic, "A", "key" + i, body("" + i)));
        }
        TransactionMQProducer transacted = inside(new TransactionMQProducer("tpg"), "transacted");
        ConcurrentLinkedQueue<String> asked = new ConcurrentLinkedQueue<>();
        transacted.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.UNKNOW;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                asked.add(text(message));
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        transacted.start();
        Message half = new Message(topic, body("half"));
        half.putUserProperty("CHECK_IMMUNITY_TIME_IN_SECONDS", "1");
        transacted.sendMessageInTransaction(half, null);
        consumer.start();
        orderly.start();
        long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(80);
        while ((SEEN.size() < count || ordered.size() < count) && System.nanoTime() < limit) {
            Thread.sleep(50);
        }
        Thread.sleep(1500);
        check(ordered.size() == count, "in order: " + ordered);
        check(asked.size() == 1 && asked.peek().startsWith(topic + "\t"), "asked about the transaction: " + asked);
        check(failures.get() > 1, "the message that failed came again");
        List<MessageExt> found = producer.queryMessage(topic, "key0", 8, 0, Long.MAX_VALUE).getMessageList();
        check(found.size() == 1 && found.get(0).getTopic().equals(topic), "by key: " + found);
        for (DefaultMQPushConsumer each : List.of(consumer, orderly)) {
            each.shutdown();
        }
        producer.shutdown();
        transacted.shutdown();
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what + "; seen: " + SEEN);
        }
    }
}
