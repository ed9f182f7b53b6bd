"""Shapes of secrets and harmless neighbours of them, for `test_d2_redaction.py`.

The shapes were written down before the patterns that find them. A secret is drawn when a test runs: none is in here.
"""

from __future__ import annotations

import base64
import random
import string
import uuid
from collections.abc import Callable

chance = random.Random(11)
LETTERS = string.ascii_letters + string.digits
DIGITS = string.digits
HEX = "0123456789abcdef"
CAPITALS = string.ascii_uppercase + DIGITS
LOW = string.ascii_lowercase + DIGITS
CAP_32, LOW_32 = string.ascii_uppercase + "234567", string.ascii_lowercase + "234567"


def drawn(length: int, letters: str = LETTERS) -> str:
    return "".join(chance.choice(letters) for _ in range(length))


def number() -> str:
    return str(uuid.UUID(int=chance.getrandbits(128)))


def b64(size: int) -> str:
    return base64.b64encode(chance.randbytes(size)).decode()


def password(length: int = 12) -> str:
    """Letters, and a digit at least."""
    text = drawn(length - 1)
    at = chance.randrange(length)
    return text[:at] + chance.choice(DIGITS) + text[at:]


SHAPES: dict[str, tuple[str, Callable[[], str]]] = {
    # a text, and what draws the secret that stands at `@@` in it
    "azure client secret": ('AZURE_CLIENT_SECRET="@@"', lambda: drawn(3) + "8Q~" + drawn(34)),
    "azure bare secret": ("the client secret is @@", lambda: drawn(3) + "8Q~" + drawn(34)),
    "azure sas": (
        "https://a.blob.core.windows.net/c?sp=r&sv=2022-11-02&sr=b&sig=@@",
        lambda: drawn(40) + "%2B" + drawn(3) + "%3D",
    ),
    "azure account key": ("AccountName=x;AccountKey=@@;Endpoint=y", lambda: b64(64)),
    "service bus": (
        "Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=@@",
        lambda: b64(32),
    ),
    "azure devops pat": ("AZURE_DEVOPS_EXT_PAT=@@", lambda: drawn(52, LOW_32)),
    "gcp private_key_id": ('"private_key_id": "@@",', lambda: drawn(40, HEX)),
    "gcp private_key json": (
        '"private_key": "-----BEGIN PRIVATE KEY-----\\n@@\\n-----END PRIVATE KEY-----\\n"',
        lambda: b64(300),
    ),
    "gcp oauth client secret": ('"client_secret":"@@"', lambda: "GOCSPX-" + drawn(28)),
    "gcp refresh token": ("refresh token 1//@@", lambda: "0g" + drawn(60)),
    "alibaba id": ("use @@ for oss", lambda: "LTAI5t" + drawn(18)),
    "alibaba secret": ("ALIBABA_CLOUD_ACCESS_KEY_SECRET=@@", lambda: drawn(30)),
    "tencent id": ("SecretId: @@", lambda: "AKID" + drawn(32)),
    "tencent key": ("TENCENTCLOUD_SECRET_KEY=@@", lambda: drawn(32)),
    "aws session": ("aws_session_token = @@", lambda: b64(200)),
    "aws temp id": ("found @@ here", lambda: "ASIA" + drawn(16, CAP_32)),
    "atlassian": ("token @@ for jira", lambda: "ATATT3xFfGF0" + drawn(180) + "=" + drawn(8, "0123456789ABCDEF")),
    "bitbucket app": ("use @@ to clone", lambda: "ATBB" + drawn(32)),
    "asana": ("asana @@", lambda: "2/1200" + drawn(12, DIGITS) + "/1200" + drawn(12, DIGITS) + ":" + drawn(32, HEX)),
    "asana v1": ("ASANA_ACCESS_TOKEN=@@", lambda: "1/1200" + drawn(12, DIGITS) + ":" + drawn(32, HEX)),
    "airtable": ("base uses @@", lambda: "pat" + drawn(14) + "." + drawn(64, HEX)),
    "figma": ("X-Figma-Token: @@", lambda: "figd_" + drawn(40)),
    "figma bare": ("paste @@ there", lambda: "figd_" + drawn(40)),
    "grafana sa": ("with @@ .", lambda: "glsa_" + drawn(32) + "_" + drawn(8, HEX)),
    "grafana cloud": ("with @@ .", lambda: "glc_" + b64(90)),
    "new relic": ("license @@", lambda: "NRAK-" + drawn(27, CAPITALS)),
    "new relic ingest": ("NEW_RELIC_LICENSE_KEY=@@", lambda: drawn(36, HEX) + "NRAL"),
    "planetscale pw": ("db @@", lambda: "pscale_pw_" + drawn(43)),
    "planetscale tkn": ("db @@", lambda: "pscale_tkn_" + drawn(43)),
    "supabase pat": ("cli @@", lambda: "sbp_" + drawn(40, HEX)),
    "supabase secret": ("cli @@", lambda: "sb_secret_" + drawn(22) + "_" + drawn(8)),
    "vercel env": ("VERCEL_TOKEN=@@", lambda: drawn(24)),
    "vercel cli": ("vercel deploy --token @@ --prod", lambda: drawn(24)),
    "netlify": ("netlify @@", lambda: "nfp_" + drawn(36)),
    "doppler": ("doppler @@", lambda: "dp.pt." + drawn(43)),
    "doppler service": ("doppler @@", lambda: "dp.st.prd." + drawn(43)),
    "postman": ("postman @@", lambda: "PMAK-" + drawn(24, HEX) + "-" + drawn(34, HEX)),
    "square": ("square @@", lambda: "EAAA" + drawn(60)),
    "square sq0atp": ("square @@", lambda: "sq0atp-" + drawn(22)),
    "square sq0csp": ("square @@", lambda: "sq0csp-" + drawn(43)),
    "paypal": ("access_token$production$@@", lambda: drawn(16, LOW) + "$" + drawn(32, HEX)),
    "paypal client": ("PAYPAL_CLIENT_SECRET=@@", lambda: "E" + drawn(79)),
    "mapbox": ("mapbox @@", lambda: "sk.eyJ1Ijoi" + drawn(70) + "." + drawn(22)),
    "algolia": ("ALGOLIA_ADMIN_KEY=@@", lambda: drawn(32, HEX)),
    "algolia header": ("X-Algolia-API-Key: @@", lambda: drawn(32, HEX)),
    "cohere": ("CO_API_KEY=@@", lambda: drawn(40)),
    "cohere kw": ("cohere.Client('@@')", lambda: drawn(40)),
    "mistral": ("MISTRAL_API_KEY=@@", lambda: drawn(32)),
    "together": ("TOGETHER_API_KEY: @@", lambda: drawn(64, HEX)),
    "together new": ("key tgp_v1_@@", lambda: drawn(43)),
    "fireworks": ("key @@ .", lambda: "fw_" + drawn(24)),
    "langfuse sk": ("langfuse @@", lambda: "sk-lf-" + number()),
    "langsmith": ("trace @@", lambda: "lsv2_pt_" + drawn(32, HEX) + "_" + drawn(10, HEX)),
    "wandb": ("wandb login @@", lambda: drawn(40, HEX)),
    "wandb env": ("WANDB_API_KEY=@@", lambda: drawn(40, HEX)),
    "pinecone new": ("pc @@", lambda: "pcsk_" + drawn(5) + "_" + drawn(63)),
    "pinecone kw": ('pinecone.init(api_key="@@")', lambda: number()),
    "weaviate": ('AuthApiKey("@@")', lambda: drawn(40)),
    "confluent": ("CONFLUENT_API_SECRET=@@", lambda: drawn(64)),
    "snowflake kw": ("snowflake.connector.connect(user='A', password='@@')", lambda: password(14)),
    "snowflake url": ("snowflake://me:@@@acc/db", lambda: password(14)),
    "cerebras": ("@@ works", lambda: "csk-" + drawn(48, LOW)),
    "tavily": ("@@ works", lambda: "tvly-dev-" + drawn(32)),
    "deepseek": ("@@ works", lambda: "sk-" + drawn(32, HEX)),
    "voyage": ("@@ works", lambda: "pa-" + drawn(43)),
    "nvidia": ("@@ works", lambda: "nvapi-" + drawn(64)),
    "elevenlabs": ("xi-api-key: @@", lambda: "sk_" + drawn(48, HEX)),
    "resend": ("@@ works", lambda: "re_" + drawn(8) + "_" + drawn(24)),
    "brevo": ("@@ works", lambda: "xkeysib-" + drawn(64, HEX) + "-" + drawn(16)),
    "clerk": ("@@ works", lambda: "sk_test_" + drawn(40)),
    "stripe webhook": ("@@ works", lambda: "whsec_" + drawn(32)),
    "tailscale": ("tailscale up --authkey @@", lambda: "tskey-auth-" + drawn(12) + "-" + drawn(32)),
    "pulumi": ("@@ works", lambda: "pul-" + drawn(40, HEX)),
    "terraform cloud": ("@@ works", lambda: drawn(14) + ".atlasv1." + drawn(67)),
    "fly": ("FLY_API_TOKEN='FlyV1 @@'", lambda: "fm2_" + b64(120)),
    "railway": ("RAILWAY_TOKEN=@@", lambda: number()),
    "neon": ("@@ works", lambda: "napi_" + drawn(64, LOW)),
    "1password": ("@@ works", lambda: "ops_eyJ" + drawn(300)),
    "sentry tok": ("@@ works", lambda: "sntrys_eyJ" + drawn(80) + "_" + drawn(43)),
    "buildkite": ("@@ works", lambda: "bkua_" + drawn(40, HEX)),
    "circleci": ("@@ works", lambda: "CCIPAT_" + drawn(22) + "_" + drawn(40, HEX)),
    "rubygems": ("@@ works", lambda: "rubygems_" + drawn(48, HEX)),
    "crates": ("cargo login @@", lambda: "cio" + drawn(32)),
    "huggingface org": ("@@ works", lambda: "api_org_" + drawn(34, string.ascii_letters)),
    "hubspot": ("@@ works", lambda: "pat-na1-" + number()),
    "contentful": ("@@ works", lambda: "CFPAT-" + drawn(43)),
    "okta": ("Authorization: SSWS @@", lambda: "00" + drawn(40)),
    "discord": ("bot @@", lambda: "MTA" + drawn(23) + "." + drawn(6) + "." + drawn(38)),
    "fcm": ("key=@@", lambda: "AAAA" + drawn(7) + ":APA91b" + drawn(134)),
    "pkcs8 one line": (
        "KEY=-----BEGIN OPENSSH PRIVATE KEY-----\\n@@\\n-----END OPENSSH PRIVATE KEY-----",
        lambda: b64(180),
    ),
    "pem spaces": ("-----BEGIN EC PRIVATE KEY----- @@ -----END EC PRIVATE KEY-----", lambda: b64(90)),
    "ssh url": ("ssh://git:@@@host.example/x.git", lambda: password()),
    "ftp url": ("ftp://me:@@@files.example.com/", lambda: password()),
    "jdbc url": ("jdbc:postgresql://db/x?user=me&password=@@", lambda: password()),
    "jdbc oracle": ("jdbc:oracle:thin:scott/@@@//db:1521/x", lambda: password()),
    "smtp url": ("smtps://me%40x.org:@@@smtp.example.com:465", lambda: password()),
    "pgpass": ("db.example.com:5432:shop:me:@@", lambda: password()),
    "npmrc": ("//registry.example.org/:_authToken=@@", lambda: number()),
    "npmrc _auth": ("_auth=@@", lambda: base64.b64encode(("me:" + password()).encode()).decode()),
    "npmrc _password": ("//r.example.org/:_password=@@", lambda: b64(16)),
    "pip.conf": ("extra-index-url = https://me:@@@index.example.org/simple", lambda: password()),
    "docker auth": (
        '{"auths": {"r.example.org": {"auth": "@@"}}}',
        lambda: base64.b64encode(("me:" + password()).encode()).decode(),
    ),
    "kube token": ("    token: @@", lambda: drawn(60)),
    "kube key": ("    client-key-data: @@", lambda: b64(300)),
    "k8s secret": ("data:\n  db-password: @@\n", lambda: base64.b64encode(password(15).encode()).decode()),
    "tfvars": ('db_password = "@@"', lambda: password()),
    "tfvars spaces": ('admin_password      = "@@"', lambda: password()),
    "tf variable": ('variable "password" {\n  default = "@@"\n}', lambda: password()),
    "json twice": ('{\\\\\\"password\\\\\\": \\\\\\"@@\\\\\\"}', lambda: password()),
    "json twice api_key": ('\\\\\\"api_key\\\\\\":\\\\\\"@@\\\\\\"', lambda: drawn(32)),
    "compose list": ("    environment:\n      - POSTGRES_PASSWORD=@@\n", lambda: password()),
    "compose map": ("      MYSQL_ROOT_PASSWORD: @@\n", lambda: password()),
    "powershell": ("$env:DB_PASSWORD = '@@'", lambda: password()),
    "powershell secure": ("ConvertTo-SecureString '@@' -AsPlainText -Force", lambda: password()),
    "cmd set": ("set DB_PASSWORD=@@\r\n", lambda: password()),
    "setx": ("setx API_TOKEN @@", lambda: drawn(30)),
    "fish": ("set -gx GITHUB_TOKEN @@", lambda: drawn(40)),
    "properties": ("spring.datasource.password=@@", lambda: password()),
    "xml": ("<password>@@</password>", lambda: password()),
    "xml attr": ('<add name="x" connectionString="Server=a;User=b;Password=@@;" />', lambda: password()),
    "xml key value": ('<add key="ApiKey" value="@@" />', lambda: drawn(32)),
    "xml maven": ("<server><id>x</id><passphrase>@@</passphrase></server>", lambda: password()),
    "nuget": ('<add key="ClearTextPassword" value="@@" />', lambda: password()),
    "html value": ('<input type="password" name="pw" value="@@">', lambda: password()),
    "log query": ('"GET /x?user=1&token=@@&y=2 HTTP/1.1" 200', lambda: drawn(32)),
    "log query pw": ("GET /login?username=me&password=@@ HTTP/1.1", lambda: password()),
    "form body": ("grant_type=password&username=me&password=@@&client_id=x", lambda: password()),
    "form client secret": ("client_id=x&client_secret=@@", lambda: drawn(32)),
    "oauth code": ("https://x.example/cb?code=@@&state=1", lambda: drawn(40)),
    "curl H basic": (
        "curl -H 'Authorization: Basic @@' https://x",
        lambda: base64.b64encode(("me:" + password()).encode()).decode(),
    ),
    "curl H token": ('curl -H "Authorization: token @@" https://x', lambda: drawn(40, HEX)),
    "curl H private": ('curl --header "PRIVATE-TOKEN: @@" https://x', lambda: drawn(20)),
    "dict header": ("headers={'Authorization': 'Bearer @@'}", lambda: drawn(40)),
    "proxy-auth": ("Proxy-Authorization: Basic @@", lambda: base64.b64encode(("me:" + password()).encode()).decode()),
    "digest": ('Authorization: Digest username="me", response="@@"', lambda: drawn(32, HEX)),
    "cookie": ("Cookie: theme=dark; sessionid=@@", lambda: drawn(32)),
    "csrf": ("X-CSRFToken: @@", lambda: drawn(64)),
    "sshpass": ("sshpass -p @@ ssh me@host", lambda: password()),
    "mysql -p": ("mysql -h db -uroot -p@@ shop", lambda: password()),
    "mysql --password=": ("mysqldump --password=@@ shop", lambda: password()),
    "mongo -p": ("mongosh -u me -p @@ --host db", lambda: password()),
    "docker login": ("docker login -u me -p @@ r.example.org", lambda: password()),
    "redis-cli -a": ("redis-cli -h c -a @@ ping", lambda: password(20)),
    "ldap -w": ("ldapsearch -D cn=admin -w @@ -b dc=x", lambda: password()),
    "wget": ("wget --http-password=@@ https://x", lambda: password()),
    "cli secret": ("tool --client-secret @@ --x", lambda: drawn(32)),
    "cli api-key": ("tool --api-key @@", lambda: drawn(32)),
    "cli token eq": ("tool --token=@@", lambda: drawn(32)),
    "openssl": ("openssl rsa -in k -passin pass:@@", lambda: password()),
    "7z": ("7z x a.7z -p@@", lambda: password()),
    "unzip": ("unzip -P @@ a.zip", lambda: password()),
    "net use": ("net use z: \\\\h\\s /user:me @@", lambda: password()),
    "chpasswd": ("echo 'me:@@' | chpasswd", lambda: password()),
    "echo stdin": ("echo @@ | docker login --password-stdin", lambda: password()),
    "sql identified": ("CREATE USER me IDENTIFIED BY '@@';", lambda: password()),
    "sql password": ("ALTER ROLE me WITH PASSWORD '@@';", lambda: password()),
    "odbc pwd": ("Driver={x};Server=a;Uid=me;Pwd=@@;", lambda: password()),
    "conn str spaces": ("Data Source=a; User ID=me; Password = @@ ;", lambda: password()),
    "mysql dsn": ("root:@@@tcp(127.0.0.1:3306)/shop?parseTime=true", lambda: password()),
    "mysql unix dsn": ("root:@@@unix(/tmp/mysql.sock)/shop", lambda: password()),
    "libpq": ("host=db user=me password=@@ dbname=x", lambda: password()),
    "htpasswd apr1": ("me:@@", lambda: "$apr1$" + drawn(8) + "$" + drawn(22)),
    "shadow": ("root:@@:19000:0:99999:7:::", lambda: "$6$" + drawn(16) + "$" + drawn(86)),
    "bcrypt": ("me:@@", lambda: "$2y$10$" + drawn(53)),
    "yescrypt": ("root:@@:19000::::::", lambda: "$y$j9T$" + drawn(22) + "$" + drawn(43)),
    "argon2": ("hash @@", lambda: "$argon2id$v=19$m=65536,t=3,p=4$" + drawn(22) + "$" + drawn(43)),
    "pbkdf2": ("hash @@", lambda: "pbkdf2_sha256$600000$" + drawn(22) + "$" + b64(32)),
    "cn": ("密码:@@", lambda: password()),
    "cn long": ("数据库密码是：@@", lambda: password()),
    "cn koling": ("口令：@@", lambda: password()),
    "ja": ("パスワード: @@", lambda: password()),
    "ko": ("비밀번호: @@", lambda: password()),
    "de": ("Passwort: @@", lambda: password()),
    "de kennwort": ("Kennwort: @@", lambda: password()),
    "fr": ("mot de passe : @@", lambda: password()),
    "es": ("contraseña: @@", lambda: password()),
    "pt": ("senha: @@", lambda: password()),
    "ru": ("пароль: @@", lambda: password()),
    "it": ("la password è @@", lambda: password()),
    "en prose": ("the password is @@", lambda: password()),
    "en login": ("login: me / pass: @@", lambda: password()),
    "go struct": ('Password: "@@",', lambda: password()),
    "ruby hash": (":password => '@@'", lambda: password()),
    "php": ("'password' => '@@',", lambda: password()),
    "php define": ("define('DB_PASSWORD', '@@');", lambda: password()),
    "js const": ("const apiKey = '@@';", lambda: drawn(32)),
    "py dict": ("{'api_key': '@@'}", lambda: drawn(32)),
    "py setitem": ("os.environ['OPENAI_API_KEY'] = '@@'", lambda: drawn(40)),
    "java set": ('config.setPassword("@@");', lambda: password()),
    "c define": ('#define WIFI_PASSWORD "@@"', lambda: password()),
    "rust": ('let password: &str = "@@";', lambda: password()),
    "ts": ("const password: string = '@@';", lambda: password()),
    "cs": ('string connectionPassword = @"@@";', lambda: password()),
    "wifi conf": ('psk="@@"', lambda: password()),
    "toml": ("[auth]\npassword = '@@'", lambda: password()),
    "ansible": ("ansible_ssh_pass=@@", lambda: password()),
    "otpauth": ("otpauth://totp/x?secret=@@&issuer=y", lambda: drawn(32, CAP_32)),
    "pw with symbols": ("password=@@", lambda: "a9!" + drawn(4) + "#x$" + drawn(4) + "%"),
    "eth key": ("private_key=0x@@", lambda: drawn(64, HEX)),
    "wireguard": ("PrivateKey = @@", lambda: b64(32)),
    "rails master": ("RAILS_MASTER_KEY=@@", lambda: drawn(32, HEX)),
    "django": ("SECRET_KEY = 'django-insecure-@@'", lambda: drawn(50)),
    "jwt secret": ("JWT_SECRET=@@", lambda: drawn(32)),
    "encryption": ("ENCRYPTION_KEY=@@", lambda: b64(32)),
    "signing": ("signing_secret: @@", lambda: drawn(32, HEX)),
    "webhook": ("WEBHOOK_SECRET=@@", lambda: drawn(32)),
    "keytool": ("keytool -storepass @@ -list", lambda: password()),
    "httpie": ("http -a me:@@ GET example.org", lambda: password()),
    "login call": ("server.login('me', '@@')", lambda: password()),
    "auth pair": ("requests.get(u, auth=('me', '@@'))", lambda: password()),
    "jwt sign": ("jwt.sign(payload, '@@')", lambda: drawn(32)),
    "form part": ('name="password"\r\n\r\n@@\r\n', lambda: password()),
    "container env": ("- name: DB_PASSWORD\n  value: @@\n", lambda: password()),
    "container env in JSON": ('{"name":"API_TOKEN","value":"@@"}', lambda: drawn(32)),
    "table": ("| password | @@ |", lambda: password()),
    "arrow": ("password -> @@", lambda: password()),
    "said": ("use password @@ for the server", lambda: password()),
    "discord hook": ("https://discord.com/api/webhooks/123456789012345678/@@", lambda: drawn(68)),
    "teams hook": (
        "https://x.webhook.office.com/webhookb2/a@b/IncomingWebhook/@@/c",
        lambda: drawn(32, HEX) + "/" + number(),
    ),
    "putty": ("PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 1\n@@\nPrivate-MAC: 12", lambda: b64(45)),
}

_NAMES = "password token secret api_key passphrase credentials".split()
_TEMPLATES = """
  --{0} {1}   the {0} to log in with
  --{0}-file PATH   read the {0} from a file
Usage: tool [--{0} <{0}>] [--user USER] FILE...
tool --{0} "$APP_{1}" --verbose
tool --{0}-stdin < /run/{0}.txt
-p, --{0} string   {0} of the registry (default "")
{0}: <your {0}>
{0}: changeme
{0}: ********
{1}=your_{0}_here
{1}=
{0} = ""
<{0}>${{app.{0}}}</{0}>
<{0}></{0}>
<label for="{0}">{0}</label><input type="{0}" name="{0}" value="">
def login(user: str, {0}: str = "") -> None:
{0}: Optional[str] = Field(default=None, description="The {0}.")
{0}?: string | undefined;
private final String {0};
set{0}(this.{0});
user.set_{0}("{0}")
define('{1}', getenv('{1}'));
fields = ("name", "{0}", "created_at2", "utf8mb4")
"{0}.title": "Enter your {0}",
"error.{0}.length": "The {0} has fewer than 12 characters"
The {0} is case-sensitive and is 8 to 64 characters long.
The {0} was reset on 2026-11-22T10:00:00Z by admin.
the {0} is stored in AWS Secrets Manager under prod/app/{0}
if the {0} is wrong, the server answers 401
variable "{0}" {{ type = string sensitive = true }}
#define {1}_MAX_LENGTH 128
#define {1} "{0}"
setx {1} %{1}%
$env:{1} = $null
ALTER USER app WITH {1} :new_{0};
export {1}="$(cat /run/secrets/{0})"
      - {1}_FILE=/run/secrets/{0}
{0}: ${{{{ secrets.{1} }}}}
test_{0}_is_rejected_after_3_attempts PASSED
The {0} ends after 3600s; see RFC 6749, section 5.1.
{0}_url: https://example.com/reset
sed -i 's/{0}=.*/{0}=XXX/' app.conf
INFO auth2.server: {0} ok for user 42 from 10.0.0.7
SELECT {0}_hash, salt FROM users WHERE id = 12345678
logger.debug("%s {0} %s", key, self.{0}.upper())
"""
_SENTENCES = """
mysql -u root -p shop < dump.sql
mysql --protocol=tcp -P 3306 -h 127.0.0.1
docker login -u me --password-stdin
docker run -p 8080:80 -p 8443:443 nginx
mongosh --port 27017 -p
ssh -p 2222 me@host
sshpass -e ssh host
cp -p config2.bak config2
mkdir -p /srv/app1/data2
7z x backup.7z -pdf
tar -xzpf x.tgz; zip -r out.zip dir1 dir2
echo hello123 | tee out1.txt
kubectl create secret generic x --from-literal=a=b
CREATE USER app IDENTIFIED BY ?;
root:@tcp(127.0.0.1:3306)/shop
user:password@tcp(host)/db
Passwort: vergessen?
Das Passwort ist zu kurz.
mot de passe : obligatoire
contraseña: mínimo 8 caracteres
密码：不能为空
密码长度必须至少为8位
パスワード: 8文字以上
пароль: не менее 8 символов
senha: obrigatória
passwd: files systemd sss
figd_ is what keys of Figma begin with
the prefix glsa_ or glc_
pat-tern matching, re_compile, fw_version_2, pa-rameter
secret_santa_list_2026
dp.pt is a prefix
"auth": {"type": "none"}
"auth": "basic"
_auth = None
{"private_key_id": null}
Authorization: SSWS <token>
GET /cb?code=200&state=ok
https://example.com/?code=EXAMPLE
client("http://localhost:8080")
htpasswd -c .htpasswd alice
$apr1$ is MD5 of Apache
pbkdf2_sha256 with 600000 rounds
{SSHA} and {SHA}
const KEY = 'Enter';
tiktoken.get_encoding("cl100k_base")
"""
HARMLESS = [
    *(line.format(name, name.upper()) for line in _TEMPLATES.strip("\n").splitlines() for name in _NAMES),
    *_SENTENCES.strip("\n").splitlines(),
]
