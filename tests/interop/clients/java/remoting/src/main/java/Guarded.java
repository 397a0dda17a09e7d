import java.nio.charset.StandardCharsets;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
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
        System.exit(perform(args) ? 0 : 1);
    }

    /** Returns false for an error that is no answer of the broker, and prints it. */
    static boolean perform(String[] args) {
        RPCHook hook = new AclClientRPCHook(new SessionCredentials(args[4], args[5]));
        try {
            if (args[0].equals("send")) {
                send(args[1], args[2], args[3], hook);
            } else {
                receive(args[1], args[2], args[3], hook);
            }
            System.out.println("DONE");
            return true;
        } catch (Exception error) {
            Throwable why = error instanceof MQBrokerException ? error : error.getCause();
            if (why instanceof MQBrokerException) {
                MQBrokerException refused = (MQBrokerException) why;
                System.out.println("REFUSED " + refused.getResponseCode() + " " + refused.getErrorMessage());
                return true;
            }
            error.printStackTrace();
            return false;
        }
    }

    private static void send(String nameserver, String topic, String group, RPCHook hook) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group, hook);
        producer.setNamesrvAddr(nameserver);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        try {
            for (int at = 0; at < MESSAGES; at++) {
                producer.send(new Message(topic, "tag", "key-" + at, ("body " + at).getBytes(StandardCharsets.UTF_8)));
            }
        } finally {
            producer.shutdown();
        }
    }

    private static void receive(String nameserver, String topic, String group, RPCHook hook) throws Exception {
        Queue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, hook);
        consumer.setNamesrvAddr(nameserver);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(Stage.taking(seen));
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
