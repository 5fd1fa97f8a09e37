/** The routes of templates over a database of their own, and what their tests ask of answers. */
import assert from 'node:assert/strict';
import { htmlToText } from '../../src/mail/html/html-text.ts';
import { templateRoutes } from '../../src/templates/routes.ts';
import { createRender, createTemplateSource } from '../../src/templates/templates.ts';
import type { Api, JsonObject } from './api.ts';
import { type FakeClock, fakeClock } from './fake-clock.ts';
import { type FeatureApp, featureApp } from './feature-app.ts';

export interface TemplateApp extends FeatureApp {
  clock: FakeClock;
  /** Of the account `acc_one`. */
  own: Api;
  /** What POST /templates answers; fails when it refuses. */
  make(body: JsonObject, by?: Api): Promise<JsonObject>;
}

export async function templateApp(): Promise<TemplateApp> {
  const clock = fakeClock();
  const app = await featureApp(({ database }) =>
    templateRoutes({
      database,
      clock,
      templates: createTemplateSource({ database, clock }),
      render: createRender(htmlToText),
      previewUnsubscribeUrl: () => 'https://mail.test/unsubscribe/preview',
    }),
  );
  const own = app.api('acc_one');
  const make = async (body: JsonObject, by = own): Promise<JsonObject> => {
    const answer = await by.post('/templates', body);
    assert.equal(answer.status, 201, answer.text);
    return answer.body;
  };
  return { ...app, clock, own, make };
}

export interface RefusalError {
  message: string;
  details: { field: string; message: string; line?: number; column?: number }[];
}

/** The error of an answer that refuses with this status and code; fails otherwise. */
export async function refused(
  answer: Promise<{ status: number; body: JsonObject }>,
  status: number,
  code: string,
): Promise<RefusalError> {
  const { status: given, body } = await answer;
  assert.equal(given, status, JSON.stringify(body));
  assert.equal(body.error.code, code);
  assert.equal(body.reasonCode, code);
  return body.error;
}

export const fields = (error: { details: { field: string }[] }): string[] => error.details.map((issue) => issue.field);
