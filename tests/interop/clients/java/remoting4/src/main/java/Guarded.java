import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Access keys: `Guarded NAMESERVER TOPIC GROUP CLOSED USER PASSWORD`. Prints what came of sending and consuming with the right ones, of
 * sending to a topic that the user may not send to, and of another password.
 */
public final class Guarded {
    private static final int COUNT = 5;

    private Guarded() {
    }

    public static void main(String[] arguments) throws Exception {
        String nameserver = arguments[0];
        RPCHook right = new AclClientRPCHook(new SessionCredentials(arguments[4], arguments[5]));
        RPCHook wrong = new AclClientRPCHook(new SessionCredentials(arguments[4], arguments[5] + "!"));
        send(nameserver, arguments[1], right, COUNT);
        System.out.println("right\t" + receive(nameserver, arguments[1], arguments[2], right));
        System.out.println("closed\t" + refusal(nameserver, arguments[3], right));
        System.out.println("wrong\t" + refusal(nameserver, arguments[1], wrong));
        System.out.flush();
        System.exit(0);
    }

    private static String refusal(String nameserver, String topic, RPCHook hook) {
        try {
            send(nameserver, topic, hook, 1);
            return "nothing";
        } catch (Exception error) {
            return (error + "; " + error.getCause()).replace('\n', ' ');
        }
    }

    private static void send(String nameserver, String topic, RPCHook hook, int count) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("senders", hook);
        producer.setNamesrvAddr(nameserver);
        producer.setInstanceName(Stage.name());
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        try {
            for (int at = 0; at < count; at++) {
                producer.send(new Message(topic, ("m" + at).getBytes(StandardCharsets.UTF_8)));
            }
        } finally {
            producer.shutdown();
        }
    }

    private static int receive(String nameserver, String topic, String group, RPCHook hook) throws Exception {
        Set<String> seen = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, hook, new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(nameserver);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> seen.add(Stage.text(message)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Stage.until("all consumed", 60, () -> seen.size() >= COUNT);
        consumer.shutdown();
        return seen.size();
    }
}
