"""Request code -> reader, on a controller's port."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from domain.controller.controller_list import ChangeControllers
from domain.controller.request import QueryController, QueryControllers, QueryControllerSettings
from protocols.remoting import codes
from protocols.remoting.controller import change, heartbeat, inquiry, own, peer, settings
from protocols.remoting.ticket import Reader, flag, request

READERS: Final[Mapping[int, Reader]] = {
    codes.BROKER_HEARTBEAT: heartbeat.beat,
    codes.ALTER_SYNC_STATE_SET: change.alter,
    codes.ELECT_MASTER: change.elect,
    codes.REGISTER_REPLICA: change.register,
    codes.GET_REPLICA_INFO: inquiry.replica_info,
    codes.GET_CONTROLLER_METADATA: request(QueryControllers, inquiry.controllers),
    codes.GET_SYNC_STATE_DATA: inquiry.sync_states,
    codes.UPDATE_CONTROLLER_CONFIG: settings.configure,
    codes.GET_CONTROLLER_CONFIG: request(QueryControllerSettings, settings.configuration),
    codes.CLEAN_BROKER_DATA: change.clean,
    codes.GET_NEXT_BROKER_ID: inquiry.next_id,
    codes.APPLY_BROKER_ID: change.apply_id,
    codes.GREET_CONTROLLER: peer.greet,
    codes.TELL_CONTROLLER: peer.notify,
    codes.LIST_STORE_GROUPS: own.list_groups,
    codes.CHANGE_STORE_GROUP: own.change_group,
    codes.GET_CONTROLLER: request(QueryController, own.controller),
    codes.HEAR_GATEWAY: own.hear_gateway,
    codes.CHANGE_CONTROLLERS: request(ChangeControllers, own.controllers_changed, "address", flag("remove")),
}
