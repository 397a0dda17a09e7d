import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * A producer and a push consumer that stay: `GrpcMember ENDPOINT NAMESPACE TOPIC GROUP COUNT`. An empty namespace is none.
 *
 * Sends COUNT messages, prints what is consumed, and goes at the end of its input.
 */
public final class GrpcMember {
    private GrpcMember() {
    }

    public static void main(String[] arguments) throws Exception {
        ClientServiceProvider provider = ClientServiceProvider.loadService();
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder().setEndpoints(arguments[0]).enableSsl(false);
        if (!arguments[1].isEmpty()) {
            builder.setNamespace(arguments[1]);
        }
        ClientConfiguration configuration = builder.build();
        String topic = arguments[2];
        Producer producer = provider.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
        for (int at = 0; at < Integer.parseInt(arguments[4]); at++) {
            byte[] body = (arguments[1] + " " + at).getBytes(StandardCharsets.UTF_8);
            say("sent\t" + producer.send(provider.newMessageBuilder().setTopic(topic).setKeys("k" + at).setBody(body).build())
                .getMessageId());
        }
        PushConsumer consumer = provider.newPushConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(arguments[3])
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL))
            .setMessageListener(GrpcMember::consume)
            .build();
        say("ready");
        new BufferedReader(new InputStreamReader(System.in)).readLine();
        consumer.close();
        producer.close();
        System.exit(0);
    }

    private static ConsumeResult consume(MessageView message) {
        ByteBuffer body = message.getBody();
        byte[] bytes = new byte[body.remaining()];
        body.get(bytes);
        String text = new String(bytes, StandardCharsets.UTF_8);
        say("seen\t" + message.getTopic() + "\t" + text + "\t" + message.getDeliveryAttempt());
        return ConsumeResult.SUCCESS;
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
