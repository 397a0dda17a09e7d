package org.apache.rocketmq.test.base;

import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.subscription.SubscriptionGroupManager;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.tools.admin.MQAdminExt;

/** A broker that is never started; what tests ask of its groups is asked of the broker at an address, as mqadmin asks. */
class RemoteBroker extends BrokerController {
    private final SubscriptionGroupManager groups;

    RemoteBroker(MQAdminExt admin, String address) {
        super(new BrokerConfig(), new NettyServerConfig(), new NettyClientConfig(), new MessageStoreConfig());
        groups = new RemoteGroups(admin, address);
    }

    @Override
    public SubscriptionGroupManager getSubscriptionGroupManager() {
        return groups;
    }

    private static final class RemoteGroups extends SubscriptionGroupManager {
        private final MQAdminExt admin;
        private final String address;

        RemoteGroups(MQAdminExt admin, String address) {
            this.admin = admin;
            this.address = address;
        }

        @Override
        public SubscriptionGroupConfig findSubscriptionGroupConfig(String group) {
            SubscriptionGroupConfig config = new SubscriptionGroupConfig();
            config.setGroupName(group);
            return config;
        }

        @Override
        public void updateSubscriptionGroupConfig(SubscriptionGroupConfig config) {
            try {
                admin.createAndUpdateSubscriptionGroupConfig(address, config);
            } catch (Exception wrong) {
                throw new IllegalStateException(wrong);
            }
        }
    }
}
