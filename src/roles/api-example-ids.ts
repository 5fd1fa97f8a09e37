/** All examples of /openapi.json are about one order of one shop. They share these ids with the sample events. */
import { SAMPLE } from '../events/events.ts';

export const TIME = SAMPLE.time;
export const DAY_BEFORE = '2026-11-19T08:00:00.000Z';

export const ids = {
  account: 'acc_2zAb00CdEfGhIjKlMnOpQr',
  message: SAMPLE.messageId,
  second: 'msg_2zAb02CdEfGhIjKlMnOpQr',
  event: SAMPLE.eventId,
  webhook: 'whk_2zAb04CdEfGhIjKlMnOpQr',
  delivery: 'del_2zAb05CdEfGhIjKlMnOpQr',
  template: 'tpl_2zAb06CdEfGhIjKlMnOpQr',
  domain: 'dom_2zAb07CdEfGhIjKlMnOpQr',
  submission: 'sub_2zAb08CdEfGhIjKlMnOpQr',
  key: 'key_2zAb09CdEfGhIjKlMnOpQr',
  credential: 'smtp_2zAb0ACdEfGhIjKlMnOpQr',
  approval: 'apr_2zAb0BCdEfGhIjKlMnOpQr',
  operatorKey: 'opk_2zAb0BCdEfGhIjKlMnOpQr',
  inboundRoute: SAMPLE.inboundRouteId,
  inbound: SAMPLE.inboundId,
  request: 'req_2zAb0CCdEfGhIjKlMnOpQr',
};

export const SHOP = SAMPLE.from;
export const ANN = SAMPLE.recipient;
export const SUBJECT = SAMPLE.subject;
