/** The operator's view of all accounts, the queue, destinations, and nodes. */
export { type DestinationView, destinationBody, lastRepliesOf, readDestinations } from './destinations.ts';
