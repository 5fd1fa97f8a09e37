/** The HTML and CSS features of an email that some email clients do not, or only partly, support. */
import { Anchor, Button, Text, Title } from '@mantine/core';
import { useMemo, useState } from 'react';
import { basePath } from '../../base-path.ts';
import { Loading } from '../../parts/states.tsx';
import { support as texts } from '../../texts/inbox.ts';
import { type LimitedFeature, limitedFeatures, UPDATED } from './client-support.ts';
import { usageOf } from './html-usage.ts';
import classes from './inbox.module.css';

export function SupportTable({ html }: { html: string }) {
  const [frame, setFrame] = useState<Document | null>(null);
  const features = useMemo(
    () => (frame === null ? undefined : limitedFeatures(usageOf(html, frame.implementation))),
    [html, frame],
  );
  return (
    <section className={classes.support} aria-label={texts.title}>
      <Title order={3} size="h3">
        {texts.title}
      </Title>
      {/* Its policy allows the styles of emails, the policy of this page does not. */}
      <iframe
        hidden
        title={texts.title}
        sandbox="allow-same-origin"
        src={`${basePath}/app-frame`}
        onLoad={({ currentTarget }) => setFrame(currentTarget.contentDocument)}
      />
      {features === undefined ? <Loading /> : <Features features={features} />}
    </section>
  );
}

function Features({ features }: { features: readonly LimitedFeature[] }) {
  const [showsPartial, setShowsPartial] = useState(false);
  const missing = features.filter(({ unsupported }) => unsupported.length > 0);
  const partial = features.filter(({ unsupported }) => unsupported.length === 0);
  const isShortened = partial.length > 0 && missing.length > 0 && !showsPartial;
  return (
    <>
      <Text c="dimmed" size="sm" mb="xs">
        {features.length === 0 ? texts.none : texts.lead}
      </Text>
      {features.length > 0 && <FeatureTable features={isShortened ? missing : [...missing, ...partial]} />}
      {isShortened && (
        <Button variant="default" mt="sm" onClick={() => setShowsPartial(true)}>
          {texts.more(partial.length)}
        </Button>
      )}
      <Text c="dimmed" size="xs" mt="sm">
        {texts.source}{' '}
        <Anchor href="https://www.caniemail.com/" target="_blank" rel="noopener noreferrer" size="xs">
          {texts.sourceName}
        </Anchor>
        {texts.updated(UPDATED)}
      </Text>
    </>
  );
}

function FeatureTable({ features }: { features: readonly LimitedFeature[] }) {
  return (
    <table className={classes.supportTable}>
      <thead>
        <tr>
          {[texts.feature, texts.used, texts.unsupported, texts.partial].map((name) => (
            <th key={name} scope="col">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {features.map((feature) => (
          <FeatureRow key={feature.name} feature={feature} />
        ))}
      </tbody>
    </table>
  );
}

function FeatureRow({ feature: { title, url, count, unsupported, partial, notes } }: { feature: LimitedFeature }) {
  const details = notes.length > 0 && <Notes notes={notes} />;
  return (
    <tr>
      <th scope="row">
        <Anchor href={url} target="_blank" rel="noopener noreferrer" size="sm">
          {title}
        </Anchor>
      </th>
      <td data-name={texts.used}>{count}</td>
      <td data-name={texts.unsupported}>
        {unsupported.join(' · ')}
        {partial.length === 0 && details}
      </td>
      <td data-name={texts.partial}>
        {partial.join(' · ')}
        {partial.length > 0 && details}
      </td>
    </tr>
  );
}

function Notes({ notes }: Pick<LimitedFeature, 'notes'>) {
  return (
    <details>
      <summary>{texts.notes(notes.length)}</summary>
      <ul>
        {notes.map(({ text, clients }) => (
          <li key={text}>
            {clients.join(' · ')}: <Note text={text} />
          </li>
        ))}
      </ul>
    </details>
  );
}

/** Text between backticks is code. */
function Note({ text }: { text: string }) {
  let at = 0;
  return text.split('`').map((part, index) => {
    const key = at;
    at += part.length + 1;
    return index % 2 === 1 ? <code key={key}>{part}</code> : part;
  });
}
