import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Tells what an application sees of each message, and sends it to another topic: `Echoing NAMESERVER FROM TO COUNT`.
 *
 * Prints `property NAME VALUE` for each user property and then `message BODY TAG KEYS`, with tabs. Ends after COUNT messages.
 */
public final class Echoing {
    /** Properties of RocketMQ's MQTT mapping: they are of the message that was received. */
    private static final Set<String> OF_MQTT = Set.of("originMqttTopic", "qosLevel", "clientId", "extData");

    private Echoing() {
    }

    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("pg_echo");
        producer.setNamesrvAddr(arguments[0]);
        producer.start();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("cg_echo");
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.subscribe(arguments[1], "*");
        int[] left = {Integer.parseInt(arguments[3])};
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                try {
                    producer.send(echo(message, arguments[2]));
                } catch (Exception error) {
                    error.printStackTrace();
                    System.exit(1);
                }
                if (--left[0] == 0) {
                    System.exit(0);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Thread.currentThread().join();
    }

    private static Message echo(MessageExt received, String topic) {
        Message sent = new Message(topic, received.getTags(), received.getKeys(), received.getBody());
        for (Map.Entry<String, String> property : received.getProperties().entrySet()) {
            String name = property.getKey();
            if (!MessageConst.STRING_HASH_SET.contains(name) && !OF_MQTT.contains(name)) {
                System.out.println("property\t" + name + "\t" + property.getValue());
                sent.putUserProperty(name, property.getValue());
            }
        }
        System.out.println("message\t" + new String(received.getBody(), StandardCharsets.UTF_8) + "\t" + received.getTags() + "\t"
            + received.getKeys());
        System.out.flush();
        return sent;
    }
}
