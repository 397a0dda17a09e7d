import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/** The same as `Echoing` of the remoting client: `GrpcEchoing ENDPOINT FROM TO COUNT`. */
public final class GrpcEchoing {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();

    private GrpcEchoing() {
    }

    public static void main(String[] arguments) throws Exception {
        ClientConfiguration configuration =
            ClientConfiguration.newBuilder().setEndpoints(arguments[0]).enableSsl(false).build();
        Producer producer =
            PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(arguments[2]).build();
        CountDownLatch left = new CountDownLatch(Integer.parseInt(arguments[3]));
        PROVIDER.newPushConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup("cg_grpc_echo")
            .setSubscriptionExpressions(Collections.singletonMap(arguments[1], FilterExpression.SUB_ALL))
            .setMessageListener(message -> {
                try {
                    producer.send(echo(message, arguments[2]));
                } catch (Exception error) {
                    error.printStackTrace();
                    System.exit(1);
                }
                left.countDown();
                return ConsumeResult.SUCCESS;
            })
            .build();
        left.await();
        System.exit(0);
    }

    private static synchronized Message echo(MessageView received, String topic) {
        ByteBuffer body = received.getBody();
        byte[] bytes = new byte[body.remaining()];
        body.get(bytes);
        MessageBuilder sent = PROVIDER.newMessageBuilder().setTopic(topic).setBody(bytes);
        received.getTag().ifPresent(sent::setTag);
        if (!received.getKeys().isEmpty()) {
            sent.setKeys(received.getKeys().toArray(new String[0]));
        }
        for (Map.Entry<String, String> property : received.getProperties().entrySet()) {
            System.out.println("property\t" + property.getKey() + "\t" + property.getValue());
            sent.addProperty(property.getKey(), property.getValue());
        }
        System.out.println("message\t" + new String(bytes, StandardCharsets.UTF_8) + "\t" + received.getTag().orElse(null)
            + "\t" + String.join(" ", received.getKeys()));
        System.out.flush();
        return sent.build();
    }
}
