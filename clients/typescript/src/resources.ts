/**
 * The resources of the API as methods. Each is one call of call.ts; lists are Pages. Other operations can be called by their operationId:
 * `client.call('operationId', …)`.
 */
import type { Answer, Body, Caller, Query } from './call.ts';
import { EventStream, type StreamOptions } from './event-stream.ts';
import type { CallOptions } from './http.ts';
import { pagesOf } from './pages.ts';
import { type Uploaded, type UploadFile, type UploadOptions, uploadFiles } from './uploads.ts';
import { verifyWebhook, verifyWebhookBatch } from './webhook.ts';

type Given = CallOptions | undefined;

const bytesOf = async (response: Response): Promise<Uint8Array> => new Uint8Array(await response.arrayBuffer());

export function messagesOf(caller: Caller) {
  return {
    list: (query: Query<'listMessages'> = {}, options?: Given) => pagesOf(caller, 'listMessages', { query }, options),
    get: (id: string, options?: Given) => caller.call('getMessage', { path: { id } }, options),
    /** The message as sent, byte for byte. */
    content: async (id: string, options?: Given) =>
      bytesOf(await caller.call('getMessageContent', { path: { id } }, options)),
    cancel: (id: string, options?: Given) => caller.call('cancelMessage', { path: { id } }, options),
    reschedule: (id: string, sendAt: string | Date, options?: Given) =>
      caller.call('rescheduleMessage', { path: { id }, body: { sendAt: new Date(sendAt).toISOString() } }, options),
    /** Creates a link that shows the status of the message to anyone who has it. */
    share: (id: string, body: Body<'shareMessage'> = {}, options?: Given) =>
      caller.call('shareMessage', { path: { id }, body }, options),
    /** The valid links to one message, newest first. */
    shares: (id: string, query: Query<'listMessageShares'> = {}, options?: Given) =>
      pagesOf(caller, 'listMessageShares', { path: { id }, query }, options),
    /** The valid links to all messages, newest first. */
    allShares: (query: Query<'listShares'> = {}, options?: Given) => pagesOf(caller, 'listShares', { query }, options),
    revokeShare: (shareId: string, options?: Given) => caller.call('revokeShare', { path: { id: shareId } }, options),
    resend: async (id: string, options?: Given) => (await caller.call('resendMessage', { path: { id } }, options)).data,
  };
}

export function eventsOf(caller: Caller) {
  return {
    list: (query: Query<'listEvents'> = {}, options?: Given) => pagesOf(caller, 'listEvents', { query }, options),
    /** Streams events live, or since `lastEventId`. */
    stream: (query: Omit<Query<'streamEvents'>, 'cursor'> = {}, options: StreamOptions = {}) =>
      new EventStream(caller, query, options),
    /** Returns the event types, each with a sample. */
    types: (options?: Given) => caller.call('listEventTypes', {}, options),
  };
}

export function attachmentsOf(caller: Caller) {
  return {
    upload: (files: readonly UploadFile[], options?: UploadOptions): Promise<Uploaded> =>
      uploadFiles(caller, files, options),
    get: (submissionId: string, options?: Given) =>
      caller.call('getAttachmentSubmission', { path: { submissionId } }, options),
  };
}

export function templatesOf(caller: Caller) {
  return {
    list: (query: Query<'listTemplates'> = {}, options?: Given) => pagesOf(caller, 'listTemplates', { query }, options),
    get: (id: string, options?: Given) => caller.call('getTemplate', { path: { id } }, options),
    create: (body: Body<'createTemplate'>, options?: Given) => caller.call('createTemplate', { body }, options),
    replace: (id: string, body: Body<'replaceTemplate'>, options?: Given) =>
      caller.call('replaceTemplate', { path: { id }, body }, options),
    /** Changes the given fields and leaves the others. */
    update: (id: string, body: Body<'updateTemplate'>, options?: Given) =>
      caller.call('updateTemplate', { path: { id }, body }, options),
    delete: (id: string, options?: Given) => caller.call('deleteTemplate', { path: { id } }, options),
    render: (id: string, body: Body<'renderTemplate'> = {}, options?: Given) =>
      caller.call('renderTemplate', { path: { id }, body }, options),
    /** Renders content that is not stored. */
    renderSources: (body: Body<'renderTemplateSources'>, options?: Given) =>
      caller.call('renderTemplateSources', { body }, options),
    /** Replaces the sample values that are stored with the template. */
    replaceSamples: (id: string, body: Body<'replaceTemplateSamples'>, options?: Given) =>
      caller.call('replaceTemplateSamples', { path: { id }, body }, options),
    /** Creates a link that shows the rendered template to anyone who has it. */
    share: (id: string, body: Body<'shareTemplate'> = {}, options?: Given) =>
      caller.call('shareTemplate', { path: { id }, body }, options),
    /** The valid links to one template, newest first. */
    shares: (id: string, query: Query<'listTemplateShares'> = {}, options?: Given) =>
      pagesOf(caller, 'listTemplateShares', { path: { id }, query }, options),
    /** The valid links to all templates, newest first. */
    allShares: (query: Query<'listAllTemplateShares'> = {}, options?: Given) =>
      pagesOf(caller, 'listAllTemplateShares', { query }, options),
    revokeShare: (shareId: string, options?: Given) =>
      caller.call('revokeTemplateShare', { path: { id: shareId } }, options),
    versions: (id: string, query: Query<'listTemplateVersions'> = {}, options?: Given) =>
      pagesOf(caller, 'listTemplateVersions', { path: { id }, query }, options),
    restore: (id: string, version: number, options?: Given) =>
      caller.call('restoreTemplateVersion', { path: { id, version: String(version) } }, options),
  };
}

export function webhooksOf(caller: Caller) {
  return {
    list: (query: Query<'listWebhooks'> = {}, options?: Given) => pagesOf(caller, 'listWebhooks', { query }, options),
    get: (id: string, options?: Given) => caller.call('getWebhook', { path: { id } }, options),
    create: (body: Body<'createWebhook'>, options?: Given) => caller.call('createWebhook', { body }, options),
    replace: (id: string, body: Body<'replaceWebhook'>, options?: Given) =>
      caller.call('replaceWebhook', { path: { id }, body }, options),
    /** Changes the given fields and leaves the others. */
    update: (id: string, body: Body<'updateWebhook'>, options?: Given) =>
      caller.call('updateWebhook', { path: { id }, body }, options),
    delete: (id: string, options?: Given) => caller.call('deleteWebhook', { path: { id } }, options),
    /** Sends a sample event, by default a Delivery; `eventType` selects another type. */
    test: (id: string, { eventType, ...options }: CallOptions & Body<'testWebhook'> = {}) => {
      const body = eventType === undefined ? {} : { body: { eventType } };
      return caller.call('testWebhook', { path: { id }, ...body }, options);
    },
    rotateSecret: (id: string, options?: Given) => caller.call('rotateWebhookSecret', { path: { id } }, options),
    deliveries: (id: string, query: Query<'listWebhookDeliveries'> = {}, options?: Given) =>
      pagesOf(caller, 'listWebhookDeliveries', { path: { id }, query }, options),
    retry: (id: string, deliveryId: string, options?: Given) =>
      caller.call('retryWebhookDelivery', { path: { id, deliveryId } }, options),
    replay: (id: string, body: Body<'replayWebhookEvents'>, options?: Given) =>
      caller.call('replayWebhookEvents', { path: { id }, body }, options),
    /** Returns how many events the same replay would send, without sending them. */
    countReplay: (id: string, body: Body<'replayWebhookEvents'>, options?: Given) =>
      caller.call('replayWebhookEvents', { path: { id }, query: { dryRun: true }, body }, options),
    /** Verifies a request that your endpoint received, without an API call, and returns its event. */
    verify: verifyWebhook,
    /** Verifies a request of a webhook with `maxBatch` above 1, and returns its events. */
    verifyBatch: verifyWebhookBatch,
  };
}

/** Inbound routes and messages. */
export function inboundOf(caller: Caller) {
  return {
    listRoutes: (query: Query<'listInboundRoutes'> = {}, options?: Given) =>
      pagesOf(caller, 'listInboundRoutes', { query }, options),
    getRoute: (id: string, options?: Given) => caller.call('getInboundRoute', { path: { id } }, options),
    createRoute: (body: Body<'createInboundRoute'>, options?: Given) =>
      caller.call('createInboundRoute', { body }, options),
    replaceRoute: (id: string, body: Body<'replaceInboundRoute'>, options?: Given) =>
      caller.call('replaceInboundRoute', { path: { id }, body }, options),
    /** Changes the given fields and leaves the others. */
    updateRoute: (id: string, body: Body<'updateInboundRoute'>, options?: Given) =>
      caller.call('updateInboundRoute', { path: { id }, body }, options),
    verifyRoute: (id: string, options?: Given) => caller.call('verifyInboundRoute', { path: { id } }, options),
    deleteRoute: (id: string, options?: Given) => caller.call('deleteInboundRoute', { path: { id } }, options),
    list: (query: Query<'listInboundMail'> = {}, options?: Given) =>
      pagesOf(caller, 'listInboundMail', { query }, options),
    get: (id: string, options?: Given) => caller.call('getInboundMail', { path: { id } }, options),
    /** The message byte for byte. */
    content: async (id: string, options?: Given) =>
      bytesOf(await caller.call('getInboundMailContent', { path: { id } }, options)),
    attachment: async (id: string, number: number, options?: Given) =>
      bytesOf(await caller.call('getInboundAttachment', { path: { id, number: String(number) } }, options)),
  };
}

export function domainsOf(caller: Caller) {
  return {
    list: (query: Query<'listDomains'> = {}, options?: Given) => pagesOf(caller, 'listDomains', { query }, options),
    get: (id: string, options?: Given) => caller.call('getDomain', { path: { id } }, options),
    /** An existing domain is returned unchanged. */
    add: (domain: string, options?: Given) => caller.call('putDomain', { body: { domain } }, options),
    dnsRecords: (id: string, options?: Given) => caller.call('getDomainDnsRecords', { path: { id } }, options),
    rotateKeys: (id: string, options?: Given) => caller.call('rotateDomainKeys', { path: { id } }, options),
    verify: (id: string, options?: Given) => caller.call('verifyDomain', { path: { id } }, options),
    delete: (id: string, options?: Given) => caller.call('deleteDomain', { path: { id } }, options),
  };
}

export function suppressionsOf(caller: Caller) {
  return {
    list: (query: Query<'listSuppressions'> = {}, options?: Given) =>
      pagesOf(caller, 'listSuppressions', { query }, options),
    get: (email: string, options?: Given) => caller.call('getSuppression', { path: { email } }, options),
    add: (body: Body<'suppressAddress'>, options?: Given) => caller.call('suppressAddress', { body }, options),
    delete: (email: string, options?: Given) => caller.call('deleteSuppression', { path: { email } }, options),
    exportCsv: async (options?: Given) => (await caller.call('exportSuppressions', {}, options)).text(),
    importCsv: (csv: string, options?: Given) =>
      caller.call('importSuppressions', { body: csv, contentType: 'text/csv' }, options),
  };
}

export function recipientsOf(caller: Caller) {
  return {
    /** Starts the erasure of all data of a recipient, or returns the one that is running. */
    erase: (email: string, options?: Given) => caller.call('eraseRecipient', { body: { email } }, options),
    erasures: (query: Query<'listErasures'> = {}, options?: Given) =>
      pagesOf(caller, 'listErasures', { query }, options),
    erasure: (id: string, options?: Given) => caller.call('getErasure', { path: { id } }, options),
  };
}

/** Added to the time that the service waits itself. */
const WAIT_MARGIN_MS = 10_000;

export function sandboxOf(caller: Caller) {
  return {
    /** Simulates a message to an inbound route. */
    simulateInbound: (body: Body<'simulateInboundMail'>, options?: Given) =>
      caller.call('simulateInboundMail', { body }, options),
    inbox: {
      list: (query: Query<'listSandboxInbox'> = {}, options?: Given) =>
        pagesOf(caller, 'listSandboxInbox', { query }, options),
      get: (id: string, options?: Given) => caller.call('getSandboxMessage', { path: { id } }, options),
      /** Resolves as soon as a message matches; PostriderError `NOT_FOUND` if none arrives in time. */
      wait: (query: Query<'waitForSandboxMessage'> = {}, options: CallOptions = {}) => {
        const { timeoutSeconds = 30 } = query;
        const timeoutMs = options.timeoutMs ?? timeoutSeconds * 1000 + WAIT_MARGIN_MS;
        return caller.call('waitForSandboxMessage', { query }, { ...options, timeoutMs });
      },
      outcome: (id: string, outcome: Body<'simulateSandboxOutcome'>['outcome'], options?: Given) =>
        caller.call('simulateSandboxOutcome', { path: { id }, body: { outcome } }, options),
      empty: (options?: Given) => caller.call('emptySandboxInbox', {}, options),
    },
    clock: {
      advance: (seconds: number, options?: Given) => caller.call('advanceSandboxClock', { body: { seconds } }, options),
      /** Removes the messages of the sandbox, and resets its clock to real time. */
      reset: (options?: Given) => caller.call('resetSandboxClock', {}, options),
    },
  };
}

export function statisticsOf(caller: Caller) {
  return {
    get: (query: Query<'getStatistics'> = {}, options?: Given) => caller.call('getStatistics', { query }, options),
  };
}

/** The log of API requests, and of rejected SMTP commands. */
export function requestsOf(caller: Caller) {
  return {
    list: (query: Query<'listRequests'> = {}, options?: Given) => pagesOf(caller, 'listRequests', { query }, options),
  };
}

/** Current incidents with advice. */
export function incidentsOf(caller: Caller) {
  return {
    list: (query: Query<'listIncidents'> = {}, options?: Given) => pagesOf(caller, 'listIncidents', { query }, options),
    get: (id: string, options?: Given) => caller.call('getIncident', { path: { id } }, options),
    retry: (id: string, options?: Given) => caller.call('retryIncident', { path: { id } }, options),
  };
}

/** The audit log. Exports may be long: they are Responses with streaming bodies. */
export function auditOf(caller: Caller) {
  return {
    list: (query: Query<'listAuditEntries'> = {}, options?: Given) =>
      pagesOf(caller, 'listAuditEntries', { query }, options),
    exportCsv: (query: Query<'exportAuditAsCsv'> = {}, options?: Given) =>
      caller.open('exportAuditAsCsv', { query }, options),
    exportJsonLines: (query: Query<'exportAuditAsJsonLines'> = {}, options?: Given) =>
      caller.open('exportAuditAsJsonLines', { query }, options),
  };
}

export function accountOf(caller: Caller) {
  return {
    get: (options?: Given): Promise<Answer<'getAccount'>> => caller.call('getAccount', {}, options),
    update: (body: Body<'updateAccount'>, options?: Given) => caller.call('updateAccount', { body }, options),
    health: (options?: Given) => caller.call('getAccountHealth', {}, options),
    resumeSending: (options?: Given) => caller.call('resumeSending', { body: { confirm: true } }, options),
    logo: {
      get: (options?: Given) => caller.call('getLogo', {}, options),
      /** `content`: a PNG, JPEG, GIF, or WebP image in Base64. */
      set: (content: string, options?: Given) => caller.call('setLogo', { body: { content } }, options),
      remove: (options?: Given) => caller.call('removeLogo', {}, options),
    },
    approvals: {
      list: (query: Query<'listApprovals'> = {}, options?: Given) =>
        pagesOf(caller, 'listApprovals', { query }, options),
      request: (body: Body<'requestApproval'>, options?: Given) => caller.call('requestApproval', { body }, options),
    },
    apiKeys: {
      list: (query: Query<'listApiKeys'> = {}, options?: Given) => pagesOf(caller, 'listApiKeys', { query }, options),
      create: (body: Body<'createApiKey'> = {}, options?: Given) => caller.call('createApiKey', { body }, options),
      update: (keyId: string, body: Body<'updateApiKey'>, options?: Given) =>
        caller.call('updateApiKey', { path: { keyId }, body }, options),
      revoke: (keyId: string, options?: Given) => caller.call('revokeApiKey', { path: { keyId } }, options),
    },
    smtpCredentials: {
      list: (query: Query<'listSmtpCredentials'> = {}, options?: Given) =>
        pagesOf(caller, 'listSmtpCredentials', { query }, options),
      create: (body: Body<'createSmtpCredential'> = {}, options?: Given) =>
        caller.call('createSmtpCredential', { body }, options),
      update: (id: string, body: Body<'updateSmtpCredential'>, options?: Given) =>
        caller.call('updateSmtpCredential', { path: { id }, body }, options),
      revoke: (id: string, options?: Given) => caller.call('revokeSmtpCredential', { path: { id } }, options),
    },
  };
}
