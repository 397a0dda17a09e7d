import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.RPCHook;

/** With credentials: `Guarded send|receive NAMESERVER TOPIC GROUP USER PASSWORD`. Prints DONE, or REFUSED and the broker's code. */
public final class Guarded {
    private static final int MESSAGES = 10;

    private Guarded() {
    }

    public static void main(String[] args) {
        RPCHook hook = new AclClientRPCHook(new SessionCredentials(args[4], args[5]));
        try {
            if (args[0].equals("send")) {
                send(args[1], args[2], args[3], hook);
            } else {
                receive(args[1], args[2], args[3], hook);
            }
            System.out.println("DONE");
            System.exit(0);
        } catch (Throwable error) {
            Throwable why = error instanceof MQBrokerException ? error : error.getCause();
            if (why instanceof MQBrokerException) {
                MQBrokerException refused = (MQBrokerException) why;
                System.out.println("REFUSED " + refused.getResponseCode() + " " + refused.getErrorMessage());
                System.exit(0);
            }
            error.printStackTrace();
            System.exit(1);
        }
    }

    private static void send(String nameserver, String topic, String group, RPCHook hook) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group, hook);
        producer.setNamesrvAddr(nameserver);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        for (int at = 0; at < MESSAGES; at++) {
            producer.send(new Message(topic, "tag", "key-" + at, ("body " + at).getBytes(StandardCharsets.UTF_8)));
        }
        producer.shutdown();
    }

    private static void receive(String nameserver, String topic, String group, RPCHook hook) throws Exception {
        Set<String> seen = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, hook);
        consumer.setNamesrvAddr(nameserver);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> seen.add(new String(message.getBody(), StandardCharsets.UTF_8)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        long end = System.currentTimeMillis() + 60_000;
        while (seen.size() < MESSAGES && System.currentTimeMillis() < end) {
            Thread.sleep(50);
        }
        consumer.shutdown();
        if (seen.size() < MESSAGES) {
            throw new IllegalStateException("only " + seen);
        }
    }
}
