"""Shapes of secrets, for checks of redaction: the form of a key, token or password, and its context.

None of them is a real secret: each is drawn at random when a check runs, and the source contains no complete one, so
that neither scanners nor hosts take this file for a leak.
"""

from __future__ import annotations

import base64
import string
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

from ...decision.wrong_calls import checked

LETTERS = string.ascii_letters + string.digits
DIGITS = string.digits
DIGITS_WITHOUT_0 = "123456789"
HEX = "0123456789abcdef"
CAPITALS = string.ascii_uppercase + DIGITS
LOW = string.ascii_lowercase + DIGITS
CAP_32, LOW_32 = string.ascii_uppercase + "234567", string.ascii_lowercase + "234567"
ALONE = ""
"""Used instead of a text: the secret is put into one of `_AROUND`."""
_AROUND = ("@@", "The key is @@.", 'x = "@@"', "- @@\n", "see `@@`")
PEM = "-----BEGIN " + "{0}-----\n@@\n-----END " + "{0}-----"


class Draw:
    """Generator of parts of secrets. chance: the source of randomness."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance

    def letters(self, length: int, letters: str = LETTERS) -> str:
        """Return this many of these letters."""
        return "".join(self.chance.choice(letters) for _ in range(length))

    def password(self, length: int = 12) -> str:
        """Return letters with at least one digit."""
        text = self.letters(length - 1)
        at = self.chance.randrange(length)
        return text[:at] + self.chance.choice(DIGITS) + text[at:]

    def base64(self, size: int) -> str:
        """Return this many bytes, in base64."""
        return base64.b64encode(self.chance.randbytes(size)).decode()

    def uuid(self) -> str:
        """Return a UUID."""
        return str(uuid.UUID(int=self.chance.getrandbits(128)))

    def lines(self) -> str:
        """Return four lines, like those of a private key."""
        return "\n".join(self.letters(64) for _ in range(4))


@checked
@dataclass(frozen=True, slots=True)
class SecretShape:
    """Form of one kind of secret, and its context."""

    kind: str
    """Name of the kind, such as `GitHub` or `mysql -p`."""
    written: Literal["before", "kept back", "neighbours"]
    """When it was collected: before the patterns of `Redaction`, which were made with it; at the same time, but
    examined only afterwards; or later, in addition to the known ones."""
    text: str
    """A text with `@@` in place of the secret; if empty, the secret is alone or among a few words."""
    secret: Callable[[Draw], str]

    def example(self, chance: Random) -> tuple[str, str]:
        """Return a text, and the secret in it."""
        secret = self.secret(Draw(chance))
        text = self.text or chance.choice(_AROUND)
        if self.written == "neighbours" and "\n" not in text:
            text = f"before {text} after"
        return text.replace("@@", secret), secret


_Shapes = dict[str, tuple[str, Callable[[Draw], str]]]
_BEFORE: _Shapes = {
    # a text, and the function that draws the secret at `@@` in it
    "AWS access key": (ALONE, lambda d: "AK" + "IA" + d.letters(16, CAP_32)),
    "AWS secret key": ("AWS_SECRET_ACCESS_KEY=@@", lambda d: d.letters(40)),
    "AWS session token": ("AWS_SESSION_TOKEN=@@", lambda d: d.letters(200)),
    "GitHub": (ALONE, lambda d: "gh" + "p_" + d.letters(36)),
    "GitHub, fine": (ALONE, lambda d: "github" + "_pat_" + d.letters(22) + "_" + d.letters(59)),
    "GitHub in a URL": ("https://x-access-token:@@@github.com/a/b.git", lambda d: d.letters(36)),
    "GitLab": (ALONE, lambda d: "gl" + "pat-" + d.letters(20)),
    "Google API": (ALONE, lambda d: "AI" + "za" + d.letters(35)),
    "Google OAuth": (ALONE, lambda d: "ya" + "29." + d.letters(120)),
    "Google client": (ALONE, lambda d: "GOC" + "SPX-" + d.letters(28)),
    "JWT": (ALONE, lambda d: "ey" + "J" + d.letters(30) + ".ey" + "J" + d.letters(80) + "." + d.letters(43)),
    "RSA key": (PEM.format("RSA PRIVATE KEY"), lambda d: d.lines()),
    "PGP key": (PEM.format("PGP PRIVATE KEY BLOCK"), lambda d: d.lines()),
    "PuTTY key": ("PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 1\n@@", lambda d: d.letters(64)),
    "age key": (ALONE, lambda d: "AGE-SEC" + "RET-KEY-1" + d.letters(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L")),
    "WireGuard key": ("PrivateKey = @@", lambda d: d.base64(32)),
    "PostgreSQL": ("postgresql://app:@@@db:5432/x", lambda d: d.letters(14)),
    "PostgreSQL with @": ("postgresql://app:@@@db:5432/x", lambda d: "pa@" + d.letters(10)),
    "PostgreSQL with /": ("postgresql://app:@@@db:5432/x", lambda d: "pa/" + d.letters(10)),
    "Redis": ("redis://:@@@cache:6379/0", lambda d: d.letters(20)),
    "MongoDB": ("mongodb+srv://u:@@@c0.mongodb.net", lambda d: d.letters(16)),
    "DSN": ("host=db user=app password=@@ dbname=x", lambda d: d.letters(15) + "7"),
    "JDBC": ("jdbc:postgresql://db/x?user=a&password=@@", lambda d: d.letters(15) + "7"),
    "Azure storage": ("AccountName=a;AccountKey=@@;EndpointSuffix=core", lambda d: d.base64(64)),
    "Azure SAS token": ("https://a.blob.core.windows.net/c?sv=2022&sig=@@%3D", lambda d: d.letters(43)),
    "OpenAI": (ALONE, lambda d: "sk" + "-proj-" + d.letters(60)),
    "Anthropic": (ALONE, lambda d: "sk" + "-ant-api03-" + d.letters(90)),
    "Groq": (ALONE, lambda d: "gs" + "k_" + d.letters(52)),
    "xAI": (ALONE, lambda d: "xa" + "i-" + d.letters(80)),
    "Hugging Face": (ALONE, lambda d: "h" + "f_" + d.letters(34)),
    "Databricks": (ALONE, lambda d: "da" + "pi" + d.letters(32, HEX)),
    "Stripe": (ALONE, lambda d: "sk" + "_live_" + d.letters(24)),
    "Stripe webhook secret": (ALONE, lambda d: "wh" + "sec_" + d.letters(32)),
    "Slack bot": (
        ALONE,
        lambda d: (
            "xo" + "xb-" + d.letters(11, DIGITS_WITHOUT_0) + "-" + d.letters(12, DIGITS_WITHOUT_0) + "-" + d.letters(24)
        ),
    ),
    "Slack webhook": (
        "https://hooks.slack.com/services/@@",
        lambda d: f"T{d.letters(8)}/B{d.letters(8)}/{d.letters(24)}",
    ),
    "Discord webhook": (
        "https://discord.com/api/webhooks/@@",
        lambda d: d.letters(18, DIGITS_WITHOUT_0) + "/" + d.letters(68),
    ),
    "Telegram": (ALONE, lambda d: d.letters(10, DIGITS_WITHOUT_0) + ":AA" + d.letters(33)),
    "SendGrid": (ALONE, lambda d: "S" + "G." + d.letters(22) + "." + d.letters(43)),
    "Twilio": (ALONE, lambda d: "S" + "K" + d.letters(32, HEX)),
    "npm": (ALONE, lambda d: "np" + "m_" + d.letters(36)),
    "PyPI": (ALONE, lambda d: "py" + "pi-AgEIcHlwaS5vcmc" + d.letters(140)),
    "Docker": (ALONE, lambda d: "dc" + "kr_pat_" + d.letters(27)),
    "Vault": (ALONE, lambda d: "hv" + "s." + d.letters(90)),
    "Bearer": ("Authorization: Bearer @@", lambda d: d.letters(39) + "7"),
    "Basic": ("Authorization: Basic @@", lambda d: base64.b64encode(b"user:passw0rd!x").decode()),
    "x-api-key": ("x-api-key: @@", lambda d: d.letters(40)),
    "session cookie": ("Cookie: session=@@", lambda d: d.letters(40)),
    "curl -u": ("curl -u admin:@@ https://h/", lambda d: d.letters(14)),
    ".env": ("DB_PASSWORD=@@", lambda d: d.letters(15) + "7"),
    "Django settings": ('SECRET_KEY="@@"', lambda d: d.letters(50)),
    "JSON": ('{"user": "a", "password": "@@"}', lambda d: d.letters(15) + "7"),
    "YAML": ("db:\n  password: @@", lambda d: d.letters(15) + "7"),
    "netrc": ("machine h login u password @@", lambda d: d.letters(16)),
    "shadow SHA-512": ("root:@@:1::::::", lambda d: f"$6${d.letters(8)}${d.letters(86)}"),
    ".pgpass": ("db:5432:x:app:@@", lambda d: d.letters(16)),
    "Kubernetes": ("kind: Secret\ndata:\n  token: @@", lambda d: d.base64(30)),
    "in a query": ("https://h/a?access_token=@@", lambda d: d.letters(40)),
    "card": (ALONE, lambda d: "4111 1111" + " 1111 1111"),
    "IBAN": (ALONE, lambda d: "DE8937040044" + "0532013000"),
    "e-mail": (ALONE, lambda d: "jane" + "@example.com"),
}
_KEPT_BACK: _Shapes = {
    "JSON in JSON": ('{"body": "{\\"password\\": \\"@@\\"}"}', lambda d: d.letters(15) + "7"),
    "Python": ("client = Client(api_key='@@')", lambda d: d.letters(32)),
    "JavaScript": ('const apiKey = "@@";', lambda d: d.letters(32)),
    "Ruby": (":secret_key_base => '@@'", lambda d: d.letters(64, HEX)),
    "PHP array": ("'password' => '@@',", lambda d: d.letters(15) + "7"),
    "Go": ('token := "@@"', lambda d: d.letters(36)),
    "shell export": ("export MYSQL_PWD='@@'", lambda d: d.letters(15) + "7"),
    "Dockerfile": ("ENV APP_SECRET=@@", lambda d: d.letters(32)),
    "docker run": ("docker run -e POSTGRES_PASSWORD=@@ postgres", lambda d: d.letters(15) + "7"),
    "Spring properties": ("spring.datasource.password=@@", lambda d: d.letters(15) + "7"),
    "Terraform": ('  client_secret = "@@"', lambda d: d.letters(36)),
    "XML attribute": ('<add key="x" password="@@" />', lambda d: d.letters(15) + "7"),
    "MySQL URL": ("mysql+pymysql://root:@@@10.0.0.3/app", lambda d: d.letters(12)),
    "AMQP URL": ("amqps://svc:@@@mq.internal:5671/vhost", lambda d: d.letters(18)),
    "FTP URL of a host": ("ftp://bob:@@@files.example.com/", lambda d: d.letters(10)),
    "SMTP URL of a mailer": ("smtp://mailer:@@@smtp.example.com:587", lambda d: d.letters(16)),
    "proxy URL": ("https_proxy=http://corp:@@@proxy:3128", lambda d: d.letters(10)),
    "git remote": ("url = https://oauth2:@@@gitlab.com/a/b.git", lambda d: d.letters(26)),
    "pip index": ("index-url = https://user:@@@index.internal/simple", lambda d: d.letters(20)),
    "SQL Server": ("Server=tcp:x,1433;User ID=a;Password=@@;Encrypt=True", lambda d: d.letters(15) + "7"),
    "OAuth answer": ('{"access_token":"@@","token_type":"bearer"}', lambda d: d.letters(64)),
    "refresh token": ('"refresh_token": "@@"', lambda d: d.letters(64)),
    "set-cookie": ("Set-Cookie: sid=@@; Path=/; HttpOnly", lambda d: d.letters(43)),
    "X-Auth-Token": ("X-Auth-Token: @@", lambda d: d.letters(40)),
    "PRIVATE-TOKEN": ("curl -H 'PRIVATE-TOKEN: @@' https://h", lambda d: d.letters(20)),
    "Sentry": ("SENTRY_AUTH_TOKEN=@@", lambda d: d.letters(64, HEX)),
    "Datadog": ("DD_API_KEY=@@", lambda d: d.letters(32, HEX)),
    "Cloudflare": ("CLOUDFLARE_API_KEY=@@", lambda d: d.letters(37, HEX)),
    "Linear": (ALONE, lambda d: "lin" + "_api_" + d.letters(40)),
    "Shopify": (ALONE, lambda d: "sh" + "pat_" + d.letters(32, HEX)),
    "DigitalOcean": (ALONE, lambda d: "do" + "p_v1_" + d.letters(64, HEX)),
    "Doppler token": (ALONE, lambda d: "dp" + ".pt." + d.letters(43)),
    "Grafana": (ALONE, lambda d: "gl" + "sa_" + d.letters(32) + "_" + d.letters(8, HEX)),
    "Postman key": (ALONE, lambda d: "PM" + "AK-" + d.letters(24, HEX) + "-" + d.letters(34, HEX)),
    "Pulumi token": (ALONE, lambda d: "pu" + "l-" + d.letters(40, HEX)),
    "RubyGems key": (ALONE, lambda d: "ruby" + "gems_" + d.letters(48, HEX)),
    "New Relic variable": ("NEW_RELIC_LICENSE_KEY=@@", lambda d: d.letters(36, HEX) + "NRAL"),
    "PlanetScale": (ALONE, lambda d: "psc" + "ale_tkn_" + d.letters(43)),
    "EC key": (PEM.format("EC PRIVATE KEY"), lambda d: d.lines()),
    "encrypted key": (PEM.format("ENCRYPTED PRIVATE KEY"), lambda d: d.lines()),
    "bcrypt in htpasswd": ("admin:@@", lambda d: "$2b$12$" + d.letters(53)),
    "card with dashes": (ALONE, lambda d: "5500-0055-" + "5555-5559"),
}
_NEIGHBOURS: _Shapes = {
    "azure client secret": ('AZURE_CLIENT_SECRET="@@"', lambda d: d.letters(3) + "8Q~" + d.letters(34)),
    "azure bare secret": ("the client secret is @@", lambda d: d.letters(3) + "8Q~" + d.letters(34)),
    "azure sas": (
        "https://a.blob.core.windows.net/c?sp=r&sv=2022-11-02&sr=b&sig=@@",
        lambda d: d.letters(40) + "%2B" + d.letters(3) + "%3D",
    ),
    "azure account key": ("AccountName=x;AccountKey=@@;Endpoint=y", lambda d: d.base64(64)),
    "service bus": (
        "Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=@@",
        lambda d: d.base64(32),
    ),
    "azure devops pat": ("AZURE_DEVOPS_EXT_PAT=@@", lambda d: d.letters(52, LOW_32)),
    "gcp private_key_id": ('"private_key_id": "@@",', lambda d: d.letters(40, HEX)),
    "gcp private_key json": (
        '"private_key": "-----BEGIN PRIVATE KEY-----\\n@@\\n-----END PRIVATE KEY-----\\n"',
        lambda d: d.base64(300),
    ),
    "gcp oauth client secret": ('"client_secret":"@@"', lambda d: "GOCSPX-" + d.letters(28)),
    "gcp refresh token": ("refresh token 1//@@", lambda d: "0g" + d.letters(60)),
    "alibaba id": ("use @@ for oss", lambda d: "LTAI5t" + d.letters(18)),
    "alibaba secret": ("ALIBABA_CLOUD_ACCESS_KEY_SECRET=@@", lambda d: d.letters(30)),
    "tencent id": ("SecretId: @@", lambda d: "AKID" + d.letters(32)),
    "tencent key": ("TENCENTCLOUD_SECRET_KEY=@@", lambda d: d.letters(32)),
    "aws session": ("aws_session_token = @@", lambda d: d.base64(200)),
    "aws temp id": ("found @@ here", lambda d: "ASIA" + d.letters(16, CAP_32)),
    "atlassian": (
        "token @@ for jira",
        lambda d: "ATATT3xFfGF0" + d.letters(180) + "=" + d.letters(8, "0123456789ABCDEF"),
    ),
    "bitbucket app": ("use @@ to clone", lambda d: "ATBB" + d.letters(32)),
    "asana": (
        "asana @@",
        lambda d: "2/1200" + d.letters(12, DIGITS) + "/1200" + d.letters(12, DIGITS) + ":" + d.letters(32, HEX),
    ),
    "asana v1": ("ASANA_ACCESS_TOKEN=@@", lambda d: "1/1200" + d.letters(12, DIGITS) + ":" + d.letters(32, HEX)),
    "airtable": ("base uses @@", lambda d: "pat" + d.letters(14) + "." + d.letters(64, HEX)),
    "figma": ("X-Figma-Token: @@", lambda d: "figd_" + d.letters(40)),
    "figma bare": ("paste @@ there", lambda d: "figd_" + d.letters(40)),
    "grafana sa": ("with @@ .", lambda d: "glsa_" + d.letters(32) + "_" + d.letters(8, HEX)),
    "grafana cloud": ("with @@ .", lambda d: "glc_" + d.base64(90)),
    "new relic": ("license @@", lambda d: "NRAK-" + d.letters(27, CAPITALS)),
    "new relic ingest": ("NEW_RELIC_LICENSE_KEY=@@", lambda d: d.letters(36, HEX) + "NRAL"),
    "planetscale pw": ("db @@", lambda d: "pscale_pw_" + d.letters(43)),
    "planetscale tkn": ("db @@", lambda d: "pscale_tkn_" + d.letters(43)),
    "supabase pat": ("cli @@", lambda d: "sbp_" + d.letters(40, HEX)),
    "supabase secret": ("cli @@", lambda d: "sb_secret_" + d.letters(22) + "_" + d.letters(8)),
    "vercel env": ("VERCEL_TOKEN=@@", lambda d: d.letters(24)),
    "vercel cli": ("vercel deploy --token @@ --prod", lambda d: d.letters(24)),
    "netlify": ("netlify @@", lambda d: "nfp_" + d.letters(36)),
    "doppler": ("doppler @@", lambda d: "dp.pt." + d.letters(43)),
    "doppler service": ("doppler @@", lambda d: "dp.st.prd." + d.letters(43)),
    "postman": ("postman @@", lambda d: "PMAK-" + d.letters(24, HEX) + "-" + d.letters(34, HEX)),
    "square": ("square @@", lambda d: "EAAA" + d.letters(60)),
    "square sq0atp": ("square @@", lambda d: "sq0atp-" + d.letters(22)),
    "square sq0csp": ("square @@", lambda d: "sq0csp-" + d.letters(43)),
    "paypal": ("access_token$production$@@", lambda d: d.letters(16, LOW) + "$" + d.letters(32, HEX)),
    "paypal client": ("PAYPAL_CLIENT_SECRET=@@", lambda d: "E" + d.letters(79)),
    "mapbox": ("mapbox @@", lambda d: "sk.eyJ1Ijoi" + d.letters(70) + "." + d.letters(22)),
    "algolia": ("ALGOLIA_ADMIN_KEY=@@", lambda d: d.letters(32, HEX)),
    "algolia header": ("X-Algolia-API-Key: @@", lambda d: d.letters(32, HEX)),
    "cohere": ("CO_API_KEY=@@", lambda d: d.letters(40)),
    "cohere kw": ("cohere.Client('@@')", lambda d: d.letters(40)),
    "mistral": ("MISTRAL_API_KEY=@@", lambda d: d.letters(32)),
    "together": ("TOGETHER_API_KEY: @@", lambda d: d.letters(64, HEX)),
    "together new": ("key tgp_v1_@@", lambda d: d.letters(43)),
    "fireworks": ("key @@ .", lambda d: "fw_" + d.letters(24)),
    "langfuse sk": ("langfuse @@", lambda d: "sk-lf-" + d.uuid()),
    "langsmith": ("trace @@", lambda d: "lsv2_pt_" + d.letters(32, HEX) + "_" + d.letters(10, HEX)),
    "wandb": ("wandb login @@", lambda d: d.letters(40, HEX)),
    "wandb env": ("WANDB_API_KEY=@@", lambda d: d.letters(40, HEX)),
    "pinecone new": ("pc @@", lambda d: "pcsk_" + d.letters(5) + "_" + d.letters(63)),
    "pinecone kw": ('pinecone.init(api_key="@@")', lambda d: d.uuid()),
    "weaviate": ('AuthApiKey("@@")', lambda d: d.letters(40)),
    "confluent": ("CONFLUENT_API_SECRET=@@", lambda d: d.letters(64)),
    "snowflake kw": ("snowflake.connector.connect(user='A', password='@@')", lambda d: d.password(14)),
    "snowflake url": ("snowflake://me:@@@acc/db", lambda d: d.password(14)),
    "cerebras": ("@@ works", lambda d: "csk-" + d.letters(48, LOW)),
    "tavily": ("@@ works", lambda d: "tvly-dev-" + d.letters(32)),
    "deepseek": ("@@ works", lambda d: "sk-" + d.letters(32, HEX)),
    "voyage": ("@@ works", lambda d: "pa-" + d.letters(43)),
    "nvidia": ("@@ works", lambda d: "nvapi-" + d.letters(64)),
    "elevenlabs": ("xi-api-key: @@", lambda d: "sk_" + d.letters(48, HEX)),
    "resend": ("@@ works", lambda d: "re_" + d.letters(8) + "_" + d.letters(24)),
    "brevo": ("@@ works", lambda d: "xkeysib-" + d.letters(64, HEX) + "-" + d.letters(16)),
    "clerk": ("@@ works", lambda d: "sk_test_" + d.letters(40)),
    "stripe webhook": ("@@ works", lambda d: "whsec_" + d.letters(32)),
    "tailscale": ("tailscale up --authkey @@", lambda d: "tskey-auth-" + d.letters(12) + "-" + d.letters(32)),
    "pulumi": ("@@ works", lambda d: "pul-" + d.letters(40, HEX)),
    "terraform cloud": ("@@ works", lambda d: d.letters(14) + ".atlasv1." + d.letters(67)),
    "fly": ("FLY_API_TOKEN='FlyV1 @@'", lambda d: "fm2_" + d.base64(120)),
    "railway": ("RAILWAY_TOKEN=@@", lambda d: d.uuid()),
    "neon": ("@@ works", lambda d: "napi_" + d.letters(64, LOW)),
    "1password": ("@@ works", lambda d: "ops_eyJ" + d.letters(300)),
    "sentry tok": ("@@ works", lambda d: "sntrys_eyJ" + d.letters(80) + "_" + d.letters(43)),
    "buildkite": ("@@ works", lambda d: "bkua_" + d.letters(40, HEX)),
    "circleci": ("@@ works", lambda d: "CCIPAT_" + d.letters(22) + "_" + d.letters(40, HEX)),
    "rubygems": ("@@ works", lambda d: "rubygems_" + d.letters(48, HEX)),
    "crates": ("cargo login @@", lambda d: "cio" + d.letters(32)),
    "huggingface org": ("@@ works", lambda d: "api_org_" + d.letters(34, string.ascii_letters)),
    "hubspot": ("@@ works", lambda d: "pat-na1-" + d.uuid()),
    "contentful": ("@@ works", lambda d: "CFPAT-" + d.letters(43)),
    "okta": ("Authorization: SSWS @@", lambda d: "00" + d.letters(40)),
    "discord": ("bot @@", lambda d: "MTA" + d.letters(23) + "." + d.letters(6) + "." + d.letters(38)),
    "fcm": ("key=@@", lambda d: "AAAA" + d.letters(7) + ":APA91b" + d.letters(134)),
    "pkcs8 one line": (
        "KEY=-----BEGIN OPENSSH PRIVATE KEY-----\\n@@\\n-----END OPENSSH PRIVATE KEY-----",
        lambda d: d.base64(180),
    ),
    "pem spaces": ("-----BEGIN EC PRIVATE KEY----- @@ -----END EC PRIVATE KEY-----", lambda d: d.base64(90)),
    "ssh url": ("ssh://git:@@@host.example/x.git", lambda d: d.password()),
    "ftp url": ("ftp://me:@@@files.example.com/", lambda d: d.password()),
    "jdbc url": ("jdbc:postgresql://db/x?user=me&password=@@", lambda d: d.password()),
    "jdbc oracle": ("jdbc:oracle:thin:scott/@@@//db:1521/x", lambda d: d.password()),
    "smtp url": ("smtps://me%40x.org:@@@smtp.example.com:465", lambda d: d.password()),
    "pgpass": ("db.example.com:5432:shop:me:@@", lambda d: d.password()),
    "npmrc": ("//registry.example.org/:_authToken=@@", lambda d: d.uuid()),
    "npmrc _auth": ("_auth=@@", lambda d: base64.b64encode(("me:" + d.password()).encode()).decode()),
    "npmrc _password": ("//r.example.org/:_password=@@", lambda d: d.base64(16)),
    "pip.conf": ("extra-index-url = https://me:@@@index.example.org/simple", lambda d: d.password()),
    "docker auth": (
        '{"auths": {"r.example.org": {"auth": "@@"}}}',
        lambda d: base64.b64encode(("me:" + d.password()).encode()).decode(),
    ),
    "kube token": ("    token: @@", lambda d: d.letters(60)),
    "kube key": ("    client-key-data: @@", lambda d: d.base64(300)),
    "k8s secret": ("data:\n  db-password: @@\n", lambda d: base64.b64encode(d.password(15).encode()).decode()),
    "tfvars": ('db_password = "@@"', lambda d: d.password()),
    "tfvars spaces": ('admin_password      = "@@"', lambda d: d.password()),
    "tf variable": ('variable "password" {\n  default = "@@"\n}', lambda d: d.password()),
    "json twice": ('{\\\\\\"password\\\\\\": \\\\\\"@@\\\\\\"}', lambda d: d.password()),
    "json twice api_key": ('\\\\\\"api_key\\\\\\":\\\\\\"@@\\\\\\"', lambda d: d.letters(32)),
    "compose list": ("    environment:\n      - POSTGRES_PASSWORD=@@\n", lambda d: d.password()),
    "compose map": ("      MYSQL_ROOT_PASSWORD: @@\n", lambda d: d.password()),
    "powershell": ("$env:DB_PASSWORD = '@@'", lambda d: d.password()),
    "powershell secure": ("ConvertTo-SecureString '@@' -AsPlainText -Force", lambda d: d.password()),
    "cmd set": ("set DB_PASSWORD=@@\r\n", lambda d: d.password()),
    "setx": ("setx API_TOKEN @@", lambda d: d.letters(30)),
    "fish": ("set -gx GITHUB_TOKEN @@", lambda d: d.letters(40)),
    "properties": ("spring.datasource.password=@@", lambda d: d.password()),
    "xml": ("<password>@@</password>", lambda d: d.password()),
    "xml attr": ('<add name="x" connectionString="Server=a;User=b;Password=@@;" />', lambda d: d.password()),
    "xml key value": ('<add key="ApiKey" value="@@" />', lambda d: d.letters(32)),
    "xml maven": ("<server><id>x</id><passphrase>@@</passphrase></server>", lambda d: d.password()),
    "nuget": ('<add key="ClearTextPassword" value="@@" />', lambda d: d.password()),
    "html value": ('<input type="password" name="pw" value="@@">', lambda d: d.password()),
    "log query": ('"GET /x?user=1&token=@@&y=2 HTTP/1.1" 200', lambda d: d.letters(32)),
    "log query pw": ("GET /login?username=me&password=@@ HTTP/1.1", lambda d: d.password()),
    "form body": ("grant_type=password&username=me&password=@@&client_id=x", lambda d: d.password()),
    "form client secret": ("client_id=x&client_secret=@@", lambda d: d.letters(32)),
    "oauth code": ("https://x.example/cb?code=@@&state=1", lambda d: d.letters(40)),
    "curl H basic": (
        "curl -H 'Authorization: Basic @@' https://x",
        lambda d: base64.b64encode(("me:" + d.password()).encode()).decode(),
    ),
    "curl H token": ('curl -H "Authorization: token @@" https://x', lambda d: d.letters(40, HEX)),
    "curl H private": ('curl --header "PRIVATE-TOKEN: @@" https://x', lambda d: d.letters(20)),
    "dict header": ("headers={'Authorization': 'Bearer @@'}", lambda d: d.letters(40)),
    "proxy-auth": (
        "Proxy-Authorization: Basic @@",
        lambda d: base64.b64encode(("me:" + d.password()).encode()).decode(),
    ),
    "digest": ('Authorization: Digest username="me", response="@@"', lambda d: d.letters(32, HEX)),
    "cookie": ("Cookie: theme=dark; sessionid=@@", lambda d: d.letters(32)),
    "csrf": ("X-CSRFToken: @@", lambda d: d.letters(64)),
    "sshpass": ("sshpass -p @@ ssh me@host", lambda d: d.password()),
    "mysql -p": ("mysql -h db -uroot -p@@ shop", lambda d: d.password()),
    "mysql --password=": ("mysqldump --password=@@ shop", lambda d: d.password()),
    "mongo -p": ("mongosh -u me -p @@ --host db", lambda d: d.password()),
    "docker login": ("docker login -u me -p @@ r.example.org", lambda d: d.password()),
    "redis-cli -a": ("redis-cli -h c -a @@ ping", lambda d: d.password(20)),
    "ldap -w": ("ldapsearch -D cn=admin -w @@ -b dc=x", lambda d: d.password()),
    "wget": ("wget --http-password=@@ https://x", lambda d: d.password()),
    "cli secret": ("tool --client-secret @@ --x", lambda d: d.letters(32)),
    "cli api-key": ("tool --api-key @@", lambda d: d.letters(32)),
    "cli token eq": ("tool --token=@@", lambda d: d.letters(32)),
    "openssl": ("openssl rsa -in k -passin pass:@@", lambda d: d.password()),
    "7z": ("7z x a.7z -p@@", lambda d: d.password()),
    "unzip": ("unzip -P @@ a.zip", lambda d: d.password()),
    "net use": ("net use z: \\\\h\\s /user:me @@", lambda d: d.password()),
    "chpasswd": ("echo 'me:@@' | chpasswd", lambda d: d.password()),
    "echo stdin": ("echo @@ | docker login --password-stdin", lambda d: d.password()),
    "sql identified": ("CREATE USER me IDENTIFIED BY '@@';", lambda d: d.password()),
    "sql password": ("ALTER ROLE me WITH PASSWORD '@@';", lambda d: d.password()),
    "odbc pwd": ("Driver={x};Server=a;Uid=me;Pwd=@@;", lambda d: d.password()),
    "conn str spaces": ("Data Source=a; User ID=me; Password = @@ ;", lambda d: d.password()),
    "mysql dsn": ("root:@@@tcp(127.0.0.1:3306)/shop?parseTime=true", lambda d: d.password()),
    "mysql unix dsn": ("root:@@@unix(/tmp/mysql.sock)/shop", lambda d: d.password()),
    "libpq": ("host=db user=me password=@@ dbname=x", lambda d: d.password()),
    "htpasswd apr1": ("me:@@", lambda d: "$apr1$" + d.letters(8) + "$" + d.letters(22)),
    "shadow": ("root:@@:19000:0:99999:7:::", lambda d: "$6$" + d.letters(16) + "$" + d.letters(86)),
    "bcrypt": ("me:@@", lambda d: "$2y$10$" + d.letters(53)),
    "yescrypt": ("root:@@:19000::::::", lambda d: "$y$j9T$" + d.letters(22) + "$" + d.letters(43)),
    "argon2": ("hash @@", lambda d: "$argon2id$v=19$m=65536,t=3,p=4$" + d.letters(22) + "$" + d.letters(43)),
    "pbkdf2": ("hash @@", lambda d: "pbkdf2_sha256$600000$" + d.letters(22) + "$" + d.base64(32)),
    "cn": ("密码:@@", lambda d: d.password()),
    "cn long": ("数据库密码是：@@", lambda d: d.password()),
    "cn koling": ("口令：@@", lambda d: d.password()),
    "ja": ("パスワード: @@", lambda d: d.password()),
    "ko": ("비밀번호: @@", lambda d: d.password()),
    "de": ("Passwort: @@", lambda d: d.password()),
    "de kennwort": ("Kennwort: @@", lambda d: d.password()),
    "fr": ("mot de passe : @@", lambda d: d.password()),
    "es": ("contraseña: @@", lambda d: d.password()),
    "pt": ("senha: @@", lambda d: d.password()),
    "ru": ("пароль: @@", lambda d: d.password()),
    "it": ("la password è @@", lambda d: d.password()),
    "en prose": ("the password is @@", lambda d: d.password()),
    "en login": ("login: me / pass: @@", lambda d: d.password()),
    "go struct": ('Password: "@@",', lambda d: d.password()),
    "ruby hash": (":password => '@@'", lambda d: d.password()),
    "php": ("'password' => '@@',", lambda d: d.password()),
    "php define": ("define('DB_PASSWORD', '@@');", lambda d: d.password()),
    "js const": ("const apiKey = '@@';", lambda d: d.letters(32)),
    "py dict": ("{'api_key': '@@'}", lambda d: d.letters(32)),
    "py setitem": ("os.environ['OPENAI_API_KEY'] = '@@'", lambda d: d.letters(40)),
    "java set": ('config.setPassword("@@");', lambda d: d.password()),
    "c define": ('#define WIFI_PASSWORD "@@"', lambda d: d.password()),
    "rust": ('let password: &str = "@@";', lambda d: d.password()),
    "ts": ("const password: string = '@@';", lambda d: d.password()),
    "cs": ('string connectionPassword = @"@@";', lambda d: d.password()),
    "wifi conf": ('psk="@@"', lambda d: d.password()),
    "toml": ("[auth]\npassword = '@@'", lambda d: d.password()),
    "ansible": ("ansible_ssh_pass=@@", lambda d: d.password()),
    "otpauth": ("otpauth://totp/x?secret=@@&issuer=y", lambda d: d.letters(32, CAP_32)),
    "pw with symbols": ("password=@@", lambda d: "a9!" + d.letters(4) + "#x$" + d.letters(4) + "%"),
    "eth key": ("private_key=0x@@", lambda d: d.letters(64, HEX)),
    "wireguard": ("PrivateKey = @@", lambda d: d.base64(32)),
    "rails master": ("RAILS_MASTER_KEY=@@", lambda d: d.letters(32, HEX)),
    "django": ("SECRET_KEY = 'django-insecure-@@'", lambda d: d.letters(50)),
    "jwt secret": ("JWT_SECRET=@@", lambda d: d.letters(32)),
    "encryption": ("ENCRYPTION_KEY=@@", lambda d: d.base64(32)),
    "signing": ("signing_secret: @@", lambda d: d.letters(32, HEX)),
    "webhook": ("WEBHOOK_SECRET=@@", lambda d: d.letters(32)),
    "keytool": ("keytool -storepass @@ -list", lambda d: d.password()),
    "httpie": ("http -a me:@@ GET example.org", lambda d: d.password()),
    "login call": ("server.login('me', '@@')", lambda d: d.password()),
    "auth pair": ("requests.get(u, auth=('me', '@@'))", lambda d: d.password()),
    "jwt sign": ("jwt.sign(payload, '@@')", lambda d: d.letters(32)),
    "form part": ('name="password"\r\n\r\n@@\r\n', lambda d: d.password()),
    "container env": ("- name: DB_PASSWORD\n  value: @@\n", lambda d: d.password()),
    "container env in JSON": ('{"name":"API_TOKEN","value":"@@"}', lambda d: d.letters(32)),
    "table": ("| password | @@ |", lambda d: d.password()),
    "arrow": ("password -> @@", lambda d: d.password()),
    "said": ("use password @@ for the server", lambda d: d.password()),
    "discord hook": ("https://discord.com/api/webhooks/123456789012345678/@@", lambda d: d.letters(68)),
    "teams hook": (
        "https://x.webhook.office.com/webhookb2/a@b/IncomingWebhook/@@/c",
        lambda d: d.letters(32, HEX) + "/" + d.uuid(),
    ),
    "putty": ("PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 1\n@@\nPrivate-MAC: 12", lambda d: d.base64(45)),
}


SECRETS: tuple[SecretShape, ...] = (
    *(SecretShape(kind, "before", *shape) for kind, shape in _BEFORE.items()),
    *(SecretShape(kind, "kept back", *shape) for kind, shape in _KEPT_BACK.items()),
    *(SecretShape(kind, "neighbours", *shape) for kind, shape in _NEIGHBOURS.items()),
)
"""All shapes, each with its own kind."""
