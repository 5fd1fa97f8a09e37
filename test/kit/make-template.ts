/** Stores a template, or a new version of it, without the HTTP API. */
import { newId } from '../../src/base/ids.ts';
import type { Mode } from '../../src/base/mode.ts';
import type { Database } from '../../src/storage/database.ts';
import { createTemplateOperation, replaceTemplateOperation, type TemplateToWrite } from '../../src/templates/store.ts';
import type { Template, TemplateContent } from '../../src/templates/template.ts';

export interface TemplateToMake extends Partial<TemplateContent> {
  accountId?: string;
  mode?: Mode;
  templateId?: string;
  name: string;
}

/** Returns the stored template; throws if it is refused. */
export async function makeTemplate(database: Database, wish: TemplateToMake): Promise<Template> {
  const { accountId = 'acc_test', mode = 'live', templateId, name, ...content } = wish;
  const row: TemplateToWrite = {
    accountId,
    mode,
    name,
    templateId: templateId ?? newId('tpl'),
    nowMs: Date.now(),
    content: {
      type: 'transactional',
      subject: null,
      mjml: null,
      html: null,
      text: null,
      layoutId: null,
      variables: [],
      ...content,
    },
  };
  const operation = templateId === undefined ? createTemplateOperation : replaceTemplateOperation;
  const written = await database.execute(operation, row);
  if (!('template' in written)) throw new Error(`the template was refused: ${JSON.stringify(written)}`);
  return written.template;
}
