import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.HashSet;
import java.util.Set;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * With SessionCredentials: `GrpcGuarded ENDPOINT TOPIC GROUP USER PASSWORD`. Sends, and receives what it has sent when GROUP is not
 * empty. Prints DONE, or REFUSED and the exceptions.
 */
public final class GrpcGuarded {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final int MESSAGES = 10;

    private GrpcGuarded() {
    }

    public static void main(String[] arguments) {
        ClientConfiguration configuration = ClientConfiguration.newBuilder().setEndpoints(arguments[0]).enableSsl(false)
            .setCredentialProvider(new StaticSessionCredentialsProvider(arguments[3], arguments[4])).build();
        try {
            Set<String> sent = send(configuration, arguments[1]);
            if (!arguments[2].isEmpty()) {
                receive(configuration, arguments[1], arguments[2], sent);
            }
            System.out.println("DONE");
        } catch (Throwable error) {
            for (Throwable each = error; each != null; each = each.getCause()) {
                System.out.println("REFUSED " + each);
            }
        }
        System.out.flush();
        System.exit(0);
    }

    private static Set<String> send(ClientConfiguration configuration, String topic) throws Exception {
        Set<String> sent = new HashSet<>();
        try (Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build()) {
            for (int at = 0; at < MESSAGES; at++) {
                byte[] body = ("body " + at).getBytes(StandardCharsets.UTF_8);
                sent.add(producer.send(PROVIDER.newMessageBuilder().setTopic(topic).setBody(body).build()).getMessageId().toString());
            }
        }
        return sent;
    }

    private static void receive(ClientConfiguration configuration, String topic, String group, Set<String> sent) throws Exception {
        try (SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(group)
            .setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL))
            .build()) {
            long end = System.currentTimeMillis() + 60_000;
            while (!sent.isEmpty()) {
                if (System.currentTimeMillis() > end) {
                    throw new AssertionError("not received: " + sent);
                }
                for (MessageView message : consumer.receive(16, Duration.ofSeconds(30))) {
                    consumer.ack(message);
                    sent.remove(message.getMessageId().toString());
                }
            }
        }
    }
}
