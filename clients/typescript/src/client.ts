/**
 * The client: `new Postrider({ url, accountId, apiKey })`. The API is available as methods of resources, or with `call()` by operationId.
 */
import { type Answer, type CallArguments, type Caller, createCaller, type OperationId } from './call.ts';
import { createEmails } from './emails.ts';
import type { ClientOptions } from './http.ts';
import {
  accountOf,
  attachmentsOf,
  auditOf,
  domainsOf,
  eventsOf,
  inboundOf,
  incidentsOf,
  messagesOf,
  recipientsOf,
  requestsOf,
  sandboxOf,
  statisticsOf,
  suppressionsOf,
  templatesOf,
  webhooksOf,
} from './resources.ts';

export class Postrider {
  readonly emails: ReturnType<typeof createEmails>;
  readonly attachments: ReturnType<typeof attachmentsOf>;
  readonly messages: ReturnType<typeof messagesOf>;
  readonly events: ReturnType<typeof eventsOf>;
  readonly webhooks: ReturnType<typeof webhooksOf>;
  readonly templates: ReturnType<typeof templatesOf>;
  readonly domains: ReturnType<typeof domainsOf>;
  readonly inbound: ReturnType<typeof inboundOf>;
  readonly suppressions: ReturnType<typeof suppressionsOf>;
  readonly recipients: ReturnType<typeof recipientsOf>;
  readonly sandbox: ReturnType<typeof sandboxOf>;
  readonly statistics: ReturnType<typeof statisticsOf>;
  readonly requests: ReturnType<typeof requestsOf>;
  readonly incidents: ReturnType<typeof incidentsOf>;
  readonly audit: ReturnType<typeof auditOf>;
  readonly account: ReturnType<typeof accountOf>;
  readonly #caller: Caller;

  constructor(options: ClientOptions) {
    const caller = createCaller(options);
    this.#caller = caller;
    this.emails = createEmails(caller);
    this.attachments = attachmentsOf(caller);
    this.messages = messagesOf(caller);
    this.events = eventsOf(caller);
    this.webhooks = webhooksOf(caller);
    this.templates = templatesOf(caller);
    this.domains = domainsOf(caller);
    this.inbound = inboundOf(caller);
    this.suppressions = suppressionsOf(caller);
    this.recipients = recipientsOf(caller);
    this.sandbox = sandboxOf(caller);
    this.statistics = statisticsOf(caller);
    this.requests = requestsOf(caller);
    this.incidents = incidentsOf(caller);
    this.audit = auditOf(caller);
    this.account = accountOf(caller);
  }

  /** Calls any operation of openapi.json by its operationId, with its types. */
  call<O extends OperationId>(operation: O, ...rest: CallArguments<O>): Promise<Answer<O>> {
    return this.#caller.call(operation, ...rest);
  }
}
