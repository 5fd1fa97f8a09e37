/**
 * Imports every store, so that all operations are registered wherever this module is loaded: in the serving thread and
 * in the storage threads alike. Stores import nothing heavy, since each thread pays for it.
 */
import '../queue/store.ts';
import '../messages/accept-store.ts';
import '../messages/delivery-store.ts';
import '../storage/meta-store.ts';
import '../accounts/store.ts';
import '../webhooks/store.ts';
import '../webhooks/work-store.ts';
import '../webhooks/log-store.ts';
import '../domains/store.ts';
