/** The operator's view of all accounts, the queue, destinations, and nodes; keys of the operator API. */
export { type DestinationView, destinationBody, lastRepliesOf, readDestinations } from './destinations.ts';
export { type OperatorKey, operatorKeysOperation, revokeOperatorKeyOperation } from './key-store.ts';
export { createOperatorKey, createOperatorKeys, type OperatorKeys, operatorKeyBody } from './keys.ts';
export { operatorChanges } from './operator-route.ts';
