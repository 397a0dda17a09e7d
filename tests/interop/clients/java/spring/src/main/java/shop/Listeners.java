package shop;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.spring.annotation.ConsumeMode;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.apache.rocketmq.spring.core.RocketMQPushConsumerLifecycleListener;
import org.springframework.context.annotation.Configuration;
import org.springframework.stereotype.Component;

/** What the application `Shop` listens to. */
@Configuration(proxyBeanMethods = false)
class Listeners {
    /** Refuses `again` once. */
    @Component
    @RocketMQMessageListener(topic = "${prefix}-convert", consumerGroup = "${prefix}-convert-group", selectorExpression = "wanted",
        delayLevelWhenNextConsume = 1)
    static class Converted implements RocketMQListener<MessageExt>, RocketMQPushConsumerLifecycleListener {
        @Override
        public void onMessage(MessageExt message) {
            String body = new String(message.getBody(), StandardCharsets.UTF_8);
            Shop.see("convert", body + " " + message.getReconsumeTimes());
            if (body.equals("again") && message.getReconsumeTimes() == 0) {
                throw new IllegalStateException("once more");
            }
        }

        @Override
        public void prepareStart(DefaultMQPushConsumer consumer) {
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "${prefix}-orderly", consumerGroup = "${prefix}-orderly-group", consumeMode = ConsumeMode.ORDERLY)
    static class Ordered implements RocketMQListener<String> {
        @Override
        public void onMessage(String body) {
            Shop.see("orderly", body);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "${prefix}-delayed", consumerGroup = "${prefix}-delayed-group")
    static class Delayed implements RocketMQListener<String> {
        @Override
        public void onMessage(String body) {
            Shop.see("delayed", body);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "${prefix}-transaction", consumerGroup = "${prefix}-transaction-group")
    static class Decided implements RocketMQListener<String> {
        @Override
        public void onMessage(String body) {
            Shop.see("transaction", body);
        }
    }
}
